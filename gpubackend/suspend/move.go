// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"fmt"
	"maps"
)

// moveOut makes a drained worker move its memory out, and says how much didn't need to be copied. A
// worker that has ended has none.
func (s *Suspension) moveOut(w Worker, bytes uint64, keep bool) (unchanged uint64, err error) {
	if bytes == 0 {
		return 0, nil
	}
	copied, err := w.MoveOut(bytes, keep)
	if errors.Is(err, ErrEnded) {
		return 0, nil
	}
	if err != nil || !keep || !copied.Keeps {
		s.noteKept(w, 0)
	} else {
		s.noteKept(w, bytes)
	}
	return min(copied.Unchanged, bytes), s.note(w, bytes, err)
}

// moveBack makes a worker move out again what was moved in and may not stay there.
func (s *Suspension) moveBack(w Worker, bytes uint64) error {
	return s.note(w, bytes, w.MoveBack(bytes))
}

// moveIn makes a worker move its memory in.
func (s *Suspension) moveIn(w Worker, bytes uint64) error {
	return s.note(w, 0, w.MoveIn(bytes))
}

// note records where a worker's memory is, unless an error kept it where it was.
func (s *Suspension) note(w Worker, out uint64, err error) error {
	switch {
	case errors.Is(err, ErrEnded):
		return nil
	case err != nil:
		return fmt.Errorf("%v: %w", w, err)
	case out == 0:
		s.mu.Lock()
		delete(s.out, w)
		s.mu.Unlock()
		return nil
	}
	s.mu.Lock()
	s.out[w] = out
	s.mu.Unlock()
	if w.Ended() { // Forget may have been called already
		s.Forget(w)
	}
	return nil
}

// whose lists the workers whose memory is out, and how much that is.
func (s *Suspension) whose() map[Worker]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.out)
}

// bringBack moves in again what is out, after a failure.
func (s *Suspension) bringBack() error {
	for w, bytes := range s.whose() {
		if err := s.moveIn(w, bytes); err != nil {
			return fmt.Errorf("%w: %w", errStranded, err)
		}
	}
	return nil
}

// moveAllIn resumes the VM. If there isn't room for all, what came in goes out again.
func (s *Suspension) moveAllIn(p *movement) (m Moved, err error) {
	if s.saved.Load() {
		return m, errFile
	}
	all := s.whose()
	p.all.Store(sum(all))
	in := make(map[Worker]uint64)
	for w, bytes := range all {
		if err := s.moveIn(w, bytes); err != nil {
			for w, bytes := range in {
				_ = s.moveBack(w, bytes)
			}
			return m, fmt.Errorf("%w: %w: nothing is lost: try again when there is room",
				errMoving, err)
		}
		in[w] = bytes
		m.Bytes += bytes
		p.done.Add(bytes)
	}
	s.trimForHost()
	s.letGo()
	return m, nil
}

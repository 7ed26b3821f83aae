// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"fmt"
	"slices"
)

// errFile says that the VM was suspended to a file.
var errFile = errors.New("the VM was suspended to a file: give it with --from")

// errNoFile says that it wasn't.
var errNoFile = errors.New("the VM wasn't suspended to a file: resume it without --from")

// Save calls save, which writes all that workers have to a file, wherever their memory is, and ends
// them. save reports how much it has written, and at the end how much device memory the file
// already had. If it fails, the VM and its workers go on. With kill, workers whose work goes on are
// Doomed, and killed when the others are saved.
func (s *Suspension) Save(
	kill bool, save func(wrote func(bytes uint64)) (unchanged uint64, err error),
	tell func(Progress),
) (Moved, error) {
	return s.atLength(Suspending, func(p *movement) (m Moved, err error) {
		defer func() {
			if err != nil {
				s.letGo()
			}
		}()
		plans, err := s.drainAll(true, kill)
		if err != nil {
			return m, err
		}
		m.Bytes = sum(plans)
		p.all.Store(m.Bytes)
		err = s.guarded(func() (err error) {
			m.Unchanged, err = save(func(n uint64) { p.done.Add(n) })
			return err
		})
		if err != nil {
			return m, fmt.Errorf("%w: %w", errMoving, err)
		}
		m.Killed = s.killBusy()
		s.saved.Store(true)
		s.tellNote(true)
		m.Stays = s.Stays()
		return m, nil
	}, tell)
}

// Copy calls save, which writes all that workers have, wherever their memory is. In any case the
// workers go on: nothing is moved.
func (s *Suspension) Copy(save func() error) error {
	if err := s.states.Begin(Suspending); err != nil {
		return err
	}
	defer s.states.End(false)
	defer s.letGo()
	if _, err := s.drainAll(true, false); err != nil {
		return err
	}
	return s.guarded(save)
}

// Load calls load, which makes workers from what was saved, and lets them go on. If load fails all
// is as it was.
func (s *Suspension) Load(
	load func() (bytes uint64, err error), tell func(Progress),
) (Moved, error) {
	return s.atLength(Resuming, func(*movement) (m Moved, err error) {
		if !s.saved.Load() {
			return m, errNoFile
		}
		err = s.guarded(func() error { m.Bytes, err = load(); return err })
		if err != nil {
			return m, fmt.Errorf("%w: %w", errMoving, err)
		}
		s.saved.Store(false)
		s.letGo()
		return m, nil
	}, tell)
}

// TakeFile makes a VM count as suspended to a file: another process has done that, or its front end
// has put it back to such a state. It has no workers whose memory is out.
func (s *Suspension) TakeFile() error {
	if err := s.states.take(); err != nil {
		return err
	}
	s.held.Store(true)
	s.saved.Store(true)
	s.tellNote(true)
	return nil
}

// Drained says whether a worker was drained, and how much memory it has. One that started since has
// nothing to save.
func (s *Suspension) Drained(w Worker) (bytes uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes, ok = s.drained[w]
	return bytes, ok
}

// Doomed says whether a worker is going to be killed, since its work goes on.
func (s *Suspension) Doomed(w Worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.doomed, w)
}

// Lost says that what was saved can't be used any more: the VM has lost it.
func (s *Suspension) Lost() { s.saved.Store(false) }

// guarded calls f, and turns its panic into an error.
func (s *Suspension) guarded(f func() error) (err error) {
	if !s.Guard("saving or loading a VM", func() { err = f() }) {
		return errFault
	}
	return err
}

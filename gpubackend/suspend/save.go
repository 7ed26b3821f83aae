// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"fmt"
)

// errFile says that what was suspended is in a file.
var errFile = errors.New("the VM was suspended to a file: give it with --from")

// errNoFile is the reverse.
var errNoFile = errors.New("the VM wasn't suspended to a file: resume it without --from")

// Save has save write all that workers have to a file, wherever their memory is, and end them. Save
// says how much it has written, and in the end how much device memory the file had already. After
// an error of its the VM runs on, and the workers with it.
func (s *Suspension) Save(
	save func(wrote func(bytes uint64)) (unchanged uint64, err error), tell func(Progress),
) (Moved, error) {
	return s.atLength(Suspending, func(p *movement) (m Moved, err error) {
		defer func() {
			if err != nil {
				s.letGo()
			}
		}()
		plans, err := s.drainAll(true)
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
		s.saved.Store(true)
		s.tellNote(true)
		m.Stays = s.Stays()
		return m, nil
	}, tell)
}

// Copy has save write all that workers have, wherever their memory is, and lets them go on,
// whatever comes of it: nothing is moved.
func (s *Suspension) Copy(save func() error) error {
	if err := s.states.Begin(Suspending); err != nil {
		return err
	}
	defer s.states.End(false)
	defer s.letGo()
	if _, err := s.drainAll(true); err != nil {
		return err
	}
	return s.guarded(save)
}

// Load has load make workers from what was saved, and lets them go on. After an error of load all
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

// TakeFile has a VM be suspended to a file: as another process did with it, or because its front
// end has put it back to such a state. It has no workers whose memory is out.
func (s *Suspension) TakeFile() error {
	if err := s.states.take(); err != nil {
		return err
	}
	s.held.Store(true)
	s.saved.Store(true)
	s.tellNote(true)
	return nil
}

// Drained says whether a worker is one that was drained, and how much memory it has. One that
// started since has nothing to save.
func (s *Suspension) Drained(w Worker) (bytes uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes, ok = s.drained[w]
	return bytes, ok
}

// Lost is told that what was saved is of no use any more: the VM has nothing left of it.
func (s *Suspension) Lost() { s.saved.Store(false) }

// guarded calls f, a fault of which is an error.
func (s *Suspension) guarded(f func() error) (err error) {
	if !s.Guard("saving or loading a VM", func() { err = f() }) {
		return errFault
	}
	return err
}

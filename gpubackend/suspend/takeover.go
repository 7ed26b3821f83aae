// SPDX-License-Identifier: Apache-2.0

package suspend

import "fmt"

// A process may end in the middle of a change, and another one take the VM over with its workers.
// Config.Note has told it which state was the last whole one: the VM is to be in that one again.
// Each worker says where it stands. Of a VM that was running what is out comes in; of one that was
// suspended what had come in goes out again, for which its image still holds.

// Standing is where a worker stands that was taken over.
type Standing struct {
	Still bool   // its work has ended, and it begins nothing
	Out   bool   // its memory is out
	Image uint64 // how much that is; or, if it is in again, how much still holds as an image
	Kept  uint64 // how much of an image it keeps
}

// TakeOver is called before all else for a VM of another process, with so many workers: Rejoin is
// called for each. No change begins before that.
func (s *Suspension) TakeOver(suspended bool, workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if suspended {
		s.held.Store(true)
		s.states.state = Suspended
	}
	if s.missing = workers; workers > 0 {
		s.rejoined = make(chan struct{})
	}
}

// Rejoin has a worker stand as its VM does, and says whether it may go on. For one that is gone
// there is no standing.
func (s *Suspension) Rejoin(w Worker, standing *Standing) (goesOn bool) {
	defer s.rejoin()
	if standing == nil {
		return false
	}
	s.noteKept(w, standing.Kept)
	switch {
	case s.Held():
		s.keepOut(w, standing)
		return false
	case standing.Out:
		if err := s.moveIn(w, standing.Image); err != nil {
			s.strand(w, standing.Image, err)
			return false
		}
	}
	return standing.Still
}

// keepOut is for a worker of a VM that is suspended.
func (s *Suspension) keepOut(w Worker, standing *Standing) {
	var err error
	switch {
	case standing.Out:
		err = s.note(w, standing.Image, nil)
	case standing.Image > 0:
		err = s.moveBack(w, standing.Image)
	}
	if err != nil {
		s.Log.WithError(err).Warn("device memory stays on the GPU, though the VM is suspended")
	}
}

// strand has the VM be suspended, as memory that is out can't come in.
func (s *Suspension) strand(w Worker, bytes uint64, why error) {
	s.Log.WithError(fmt.Errorf("%w: %w", errStranded, why)).
		Error("another device process has the VM, which was to run")
	_ = s.note(w, bytes, nil)
	s.held.Store(true)
	s.states.strand()
	s.tellNote(true)
}

// rejoin counts a worker.
func (s *Suspension) rejoin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing--; s.missing == 0 {
		close(s.rejoined)
		s.rejoined = nil
	}
}

// awaitRejoined waits for the workers of the process before.
func (s *Suspension) awaitRejoined() {
	s.mu.Lock()
	rejoined := s.rejoined
	s.mu.Unlock()
	if rejoined != nil {
		<-rejoined
	}
}

// tellNote has it noted whether the VM is suspended.
func (s *Suspension) tellNote(suspended bool) {
	if s.Note != nil {
		s.Note(suspended)
	}
}

// SPDX-License-Identifier: Apache-2.0

package suspend

import "fmt"

// A process may end in the middle of a change, and another one take the VM over with its workers.
// Config.Note has recorded the last state that was complete: the VM must get back to it. Each
// worker says where it stands. If the VM was running, what is out comes in; if it was suspended,
// what had come in goes out again, to its image, which is still valid.

// Standing is the state of a worker that was taken over.
type Standing struct {
	Still bool   // its work has ended, and it begins nothing
	Out   bool   // its memory is out
	Image uint64 // how much that is; or, if it is in again, how much of its image is still valid
	Kept  uint64 // how much of an image it keeps
}

// TakeOver is called before all else for a VM that another process had, with its number of workers.
// Rejoin is called for each; no change begins before.
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

// Rejoin brings a worker to its VM's state, and says whether it may go on. A worker that is gone
// has no standing.
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

// keepOut is Rejoin for a worker of a suspended VM.
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

// strand makes the VM suspended, as memory that is out can't come in.
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

// awaitRejoined waits for the earlier process's workers.
func (s *Suspension) awaitRejoined() {
	s.mu.Lock()
	rejoined := s.rejoined
	s.mu.Unlock()
	if rejoined != nil {
		<-rejoined
	}
}

// tellNote notes whether the VM is suspended.
func (s *Suspension) tellNote(suspended bool) {
	if s.Note != nil {
		s.Note(suspended)
	}
}

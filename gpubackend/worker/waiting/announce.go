// SPDX-License-Identifier: Apache-2.0

package waiting

import "github.com/paracuda/paracuda/gpubackend"

// announcer makes the device itself write the answers of calls that synchronize.
type announcer struct {
	registered bool // the slots are known to the driver
	off        bool // they can't be
	unsettled  bool // an answer came, and the driver wasn't asked about its work since
	polls      uint32
}

// announce makes the device write the answer of a call, if it can.
func (s *Waiting) announce(x *waiter) bool {
	if !x.reply || !s.announcer.registered && !s.registerSlots() || !s.Gate.MayAnnounce() {
		return false
	}
	a := s.Arena()
	done, ok := a.Prepare(x.slot)
	if !ok {
		return false
	}
	x.done = a.Address(done)
	result := s.Driver.Announce(gpubackend.Stream(x.native), x.kind == forContext, x.done, x.seq)
	return result == gpubackend.Success
}

// registerSlots makes the slots known to the driver, unless they can't be.
func (s *Waiting) registerSlots() bool {
	a := &s.announcer
	if a.off {
		return false
	}
	arena := s.Arena()
	b := arena.SlotArea()
	result := s.Driver.HostRegister(arena.Address(b), uint64(len(b)), true)
	a.registered = result == gpubackend.Success
	a.off = !a.registered
	return a.registered
}

// FailurePolls is how many turns of the loop pass between questions to the driver about an
// announced answer, since failed work announces nothing.
const FailurePolls = 64

// look is query for any call that waits: its answer may be announced.
func (s *Waiting) look(x *waiter) gpubackend.Result {
	if x.work != nil {
		return x.work.Advance()
	}
	if !x.announced {
		return s.query(x)
	}
	if s.Arena().Answered(x.slot, x.seq) {
		s.settled(x)
		return gpubackend.Success
	}
	a := &s.announcer
	if a.polls++; a.polls%FailurePolls != 0 {
		return gpubackend.NotReady
	}
	return s.query(x)
}

// settled tells the driver that an announcement has arrived.
func (s *Waiting) settled(x *waiter) {
	if s.Contexts.Set(x.context, true) == gpubackend.Success && s.Driver.Announced(x.done, x.seq) {
		s.Ended()
	} else {
		s.announcer.unsettled = true
	}
}

// Settle asks the driver about work whose end it hasn't noticed, so that it does. The loop has time
// for that when it is idle.
func (s *Waiting) Settle() {
	if a := &s.announcer; a.unsettled {
		a.unsettled = false
		s.Driver.ContextQuery()
		s.Ended()
	}
}

// Announced is the answer that the device writes, if nothing else is waited for.
func (s *Waiting) Announced() (slot uint16, seq uint32, ok bool) {
	if len(s.calls) != 1 {
		return 0, 0, false
	}
	x := &s.calls[0]
	return x.slot, x.seq, x.announced
}

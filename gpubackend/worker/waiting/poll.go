// SPDX-License-Identifier: Apache-2.0

package waiting

import "github.com/paracuda/paracuda/gpubackend"

// query asks once whether a call's wait is over.
func (s *Waiting) query(x *waiter) gpubackend.Result {
	if result := s.Contexts.Set(x.context, true); result != gpubackend.Success {
		return result
	}
	switch x.kind {
	case forContext:
		return s.Driver.ContextQuery()
	case forStream:
		return s.Driver.StreamQuery(gpubackend.Stream(x.native))
	case forEvent:
		return s.Driver.EventQuery(gpubackend.Event(x.native))
	case forFence:
		return s.Fences.Passed(x.fence)
	}
	return x.work.Advance()
}

// Poll answers the calls whose wait is over and says whether there were any.
func (s *Waiting) Poll() (answered bool) {
	for i := 0; i < len(s.calls); {
		result := s.look(&s.calls[i])
		if result == gpubackend.NotReady {
			i++
			continue
		}
		x := s.take(i)
		s.answer(&x, result)
		answered = true
	}
	return answered
}

// take removes a call. Another one gets its place.
func (s *Waiting) take(i int) waiter {
	x, last := s.calls[i], len(s.calls)-1
	s.calls[i] = s.calls[last]
	s.calls[last] = waiter{}
	s.calls = s.calls[:last]
	return x
}

// answer answers a call whose wait is over.
func (s *Waiting) answer(x *waiter, result gpubackend.Result) {
	announced := x.announced && s.Arena().Answered(x.slot, x.seq)
	if x.work != nil && !x.work.Over(result) {
		return
	}
	if announced {
		// Nothing is written: the thread's next call may have been answered by now.
		s.WakeGuest()
		return
	}
	var words []uint64
	if x.then != nil && (result == gpubackend.Success || x.anyway) {
		words = []uint64{0}
		words[0], result = x.then()
	}
	s.Ended()
	s.Finish(x.slot, x.seq, x.reply, result, words)
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// waiter is a call that waits for work on the GPU. It is polled between commands.
type waiter struct {
	kind    waitKind
	slot    uint16
	seq     uint32
	reply   bool
	context uint64
	native  uint64 // stream or event
	fence   fences.Fence
	work    call.Work // for waitWork
	// announced: the device writes the answer itself
	announced bool
	done      uint64 // to this address
	// what the call does after the wait, and its answer
	then func() (word uint64, result gpubackend.Result)
}

type waitKind uint8

const (
	waitContext waitKind = iota
	waitStream
	waitEvent
	waitFence
	waitWork
)

func newWaiter(c *call.Call, kind waitKind, native uint64) waiter {
	return waiter{
		kind: kind, slot: c.Slot, seq: c.Seq, reply: c.Reply(), context: c.Context, native: native,
	}
}

// wait makes a call wait, unless it is complete already.
func (w *Worker) wait(c *call.Call, kind waitKind, native uint64) gpubackend.Result {
	x := newWaiter(c, kind, native)
	if result := w.query(&x); result != gpubackend.NotReady {
		w.pools.Settle()
		return result
	}
	w.waiters = append(w.waiters, x)
	return call.Pending
}

// whenDone makes a call wait for what is in a stream now. The device announces the end if it can.
func (w *Worker) whenDone(c *call.Call, s gpubackend.Stream) (result gpubackend.Result) {
	x := newWaiter(c, waitStream, uint64(s))
	if x.announced = w.announce(&x); !x.announced {
		x.kind = waitFence
		if x.fence, result = w.fences.Mark(s); result != gpubackend.Success {
			return result
		}
	}
	w.waiters = append(w.waiters, x)
	return call.Pending
}

// await makes a call wait for work of a room's.
func (w *Worker) await(c *call.Call, work call.Work) gpubackend.Result {
	x := newWaiter(c, waitWork, 0)
	x.work = work
	w.waiters = append(w.waiters, x)
	return call.Pending
}

// whenIdle makes a call wait for the work of its context and then do something.
func (w *Worker) whenIdle(c *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result {
	result := w.wait(c, waitContext, 0)
	switch {
	case result == call.Pending:
		w.waiters[len(w.waiters)-1].then = then
		return call.Pending
	case result != gpubackend.Success && c.Context != 0:
		return result
	}
	word, result := then()
	c.Answer(word)
	return result
}

// endStream ends a stream, and endEvent an event and its offer. Other threads may wait for them
// still.
func (w *Worker) endStream(
	c *call.Call, a command.StreamDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	s, _ := w.streams.Find(c, a.HStream)
	result := run(c)
	if result == gpubackend.Success {
		w.graphs.LoseCapture(s)
		w.widen(waitStream, uint64(s))
	}
	return result
}

func (w *Worker) endEvent(
	c *call.Call, a command.EventDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	e, _ := handles.Event(&w.objects, a.HEvent)
	result := run(c)
	if result == gpubackend.Success {
		w.widen(waitEvent, uint64(e))
	}
	return result
}

// widen has calls that wait for what is gone wait for all of their context: the driver must not be
// asked for it again.
func (w *Worker) widen(kind waitKind, native uint64) {
	for i := range w.waiters {
		if x := &w.waiters[i]; x.kind == kind && x.native == native {
			x.kind = waitContext
		}
	}
}

// query asks once whether what a call waits for has happened.
func (w *Worker) query(x *waiter) gpubackend.Result {
	if result := w.contexts.Set(x.context, true); result != gpubackend.Success {
		return result
	}
	switch x.kind {
	case waitContext:
		return w.driver.ContextQuery()
	case waitStream:
		return w.driver.StreamQuery(gpubackend.Stream(x.native))
	case waitEvent:
		return w.driver.EventQuery(gpubackend.Event(x.native))
	case waitFence:
		return w.fences.Passed(x.fence)
	}
	return x.work.Advance()
}

// pollWaiters answers the calls whose wait is over and says whether there were any.
func (w *Worker) pollWaiters() (answered bool) {
	if !w.waits() && !w.hostFuncs.Busy() {
		return false
	}
	w.transfers.Poll()
	if w.hostFuncs.Busy() && w.hostFuncs.Advance() {
		answered = true
	}
	for i := 0; i < len(w.waiters); {
		x := &w.waiters[i]
		result := w.look(x)
		if result == gpubackend.NotReady {
			i++
			continue
		}
		slot, seq, reply, then, work := x.slot, x.seq, x.reply, x.then, x.work
		announced := x.announced && w.arena.Answered(slot, seq)
		last := len(w.waiters) - 1
		w.waiters[i] = w.waiters[last]
		w.waiters[last] = waiter{}
		w.waiters = w.waiters[:last]
		answered = true
		if work != nil && !work.Over(result) {
			continue
		}
		if announced {
			// Nothing is written: the thread may have been answered its next call by now.
			w.chains.wakeSleepers()
			continue
		}
		var words []uint64
		if then != nil && result == gpubackend.Success {
			words = []uint64{0}
			words[0], result = then()
		}
		w.pools.Settle()
		w.finish(slot, seq, reply, result, words)
	}
	return answered
}

func (w *Worker) runCtxSynchronize(c *call.Call, _ command.CtxSynchronize) gpubackend.Result {
	return w.synchronize(c, waitContext, 0)
}

func (w *Worker) runStreamSynchronize(c *call.Call, a command.StreamSynchronize) gpubackend.Result {
	s, result := w.streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	return w.synchronize(c, waitStream, uint64(s))
}

func (w *Worker) runEventSynchronize(c *call.Call, a command.EventSynchronize) gpubackend.Result {
	e, result := handles.Event(&w.objects, a.Event)
	if result != gpubackend.Success {
		return result
	}
	return w.wait(c, waitEvent, uint64(e))
}

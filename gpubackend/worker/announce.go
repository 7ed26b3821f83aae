// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// announcer has the device itself write the answers of calls that synchronize: the guest sees them
// no later than it would natively, and the worker's goroutine is free for the next command in the
// meantime.
type announcer struct {
	registered bool // the slots are known to the driver
	off        bool // they can't be
	unsettled  bool // an answer came, and the driver wasn't asked whether its work is done
	polls      uint32
}

// synchronize makes a call wait, as wait does, and has the device announce the end if it can. The
// work that is waited for was queued just now, most often: asking whether it is done would only
// delay the announcement.
func (w *Worker) synchronize(c *call.Call, kind waitKind, native uint64) gpubackend.Result {
	x := newWaiter(c, kind, native)
	if x.announced = w.announce(&x); x.announced {
		w.waiters = append(w.waiters, x)
		return call.Pending
	}
	return w.wait(c, kind, native)
}

func (w *Worker) announce(x *waiter) bool {
	if !x.reply || !w.registerSlots() || w.admission != nil && !w.admission.MayAnnounce() {
		return false
	}
	done, ok := w.arena.Prepare(x.slot)
	if !ok {
		return false
	}
	x.done = w.arena.Address(done)
	result := w.driver.Announce(gpubackend.Stream(x.native), x.kind == waitContext, x.done, x.seq)
	return result == gpubackend.Success
}

// registerSlots makes the slots known to the driver, once.
func (w *Worker) registerSlots() bool {
	a := &w.announcer
	if a.registered || a.off {
		return a.registered
	}
	b := w.arena.SlotArea()
	result := w.driver.HostRegister(w.arena.Address(b), uint64(len(b)), true)
	a.registered = result == gpubackend.Success
	a.off = !a.registered
	return a.registered
}

// failurePolls is how many turns of the loop go by between questions to the driver about an
// announced answer: work that fails announces nothing.
const failurePolls = 64

// look is query for any call that waits: its answer may be announced.
func (w *Worker) look(x *waiter) gpubackend.Result {
	if x.work != nil {
		return x.work.Advance()
	}
	if !x.announced {
		return w.query(x)
	}
	a := &w.announcer
	if w.arena.Answered(x.slot, x.seq) {
		w.settled(x)
		return gpubackend.Success
	}
	if a.polls++; a.polls%failurePolls != 0 {
		return gpubackend.NotReady
	}
	return w.query(x)
}

// settled tells the driver that an announcement has arrived.
func (w *Worker) settled(x *waiter) {
	if w.contexts.Set(x.context, true) == gpubackend.Success && w.driver.Announced(x.done, x.seq) {
		w.pools.Settle()
	} else {
		w.announcer.unsettled = true
	}
}

// settleAfter is how long nothing must have happened before the driver is asked about work whose
// end it didn't see.
const settleAfter = 20 * time.Microsecond

// settle asks the driver, so that it sees the end of such work. There is time for that when the
// loop is idle.
func (w *Worker) settle() {
	if a := &w.announcer; a.unsettled && w.hello.IsOpen() {
		a.unsettled = false
		w.driver.ContextQuery()
		w.pools.Settle()
	}
}

// queryStream is StreamQuery, after a look at the answers that the device has written: whoever got
// one asks no earlier, and must not be told that the stream isn't ready.
func (w *Worker) queryStream(
	c *call.Call, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	w.pollWaiters()
	if result := w.contexts.Set(c.Context, false); result != gpubackend.Success {
		return result
	}
	return run(c)
}

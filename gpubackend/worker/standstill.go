// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/sleeping"
	"github.com/paracuda/paracuda/gpubackend/worker/waiting"
)

// pauseUntilResume leaves the guest's memory alone until the device process gives the queue back.
// What was begun ends before: a kernel or a copy that goes on would write to pages that may be
// another driver's by then. Nothing is taken from the ring meanwhile. The device process has the
// patience, for as long as grace says, and kills a worker for whose work it lasts too long.
//
// Calls that wait are answered as well, as far as that comes in half of the time: a VM that pauses
// may be about to be saved, and what would have to be answered then can't be.
func (w *Worker) pauseUntilResume(grace time.Duration) error {
	w.launcher.Flush()
	asked := w.hold.masters
	if err := w.awaitStandstill(grace / 2); err != nil || asked != w.hold.masters {
		return err
	}
	w.door.Standstill()
	w.chains.dirty.markHeld()
	if err := w.control.Send(&handover.Message{Kind: handover.KindPaused}, nil); err != nil {
		return err
	}
	w.hold.paused = true
	return w.whileHeld()
}

// awaitStandstill obeys messages until nothing is under way any more, and for so long calls that
// wait, or until another device process has taken over: it asks again. The pause between two looks
// grows with the time that this takes.
func (w *Worker) awaitStandstill(answering time.Duration) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	in, asked := answers{until: time.Now().Add(answering)}, w.hold.masters
	for begin := time.Now(); asked == w.hold.masters && (!w.mayPause() || w.answersMore(&in)); {
		w.watchdog.turn()
		timer.Reset(sleeping.Pause(time.Since(begin)))
		select {
		case r := <-w.messages:
			if err := w.obey(r); err != nil {
				return err
			}
		case <-timer.C:
		}
	}
	return nil
}

// mayPause says whether the worker stands still, or goes on only when the guest has run host
// functions: those that it is known to have run are over.
func (w *Worker) mayPause() bool {
	w.hostFuncs.LetGo() // obeying a message holds it
	w.hostFuncs.Advance()
	w.hostFuncs.Hold()
	return w.standsStill() || !w.copies.Active() && w.driver.AwaitsHost()
}

// standsStill says whether nothing that was begun for the guest goes on: no chunk of a copy is on
// its way, and every context is idle. Of a copy in several chunks the rest is begun after the
// pause.
func (w *Worker) standsStill() bool {
	w.copies.Poll()
	if w.copies.Active() {
		return false
	}
	for context := range w.objects.All(object.Context) {
		if w.contexts.Set(context, true) == gpubackend.Success &&
			w.driver.ContextQuery() == gpubackend.NotReady {
			return false
		}
	}
	return true
}

// answers are of calls that wait, while what was begun stands still.
type answers struct {
	until time.Time
	looks int // without one
}

// maxLooks is after how many looks without an answer none comes: of a call whose answer is
// announced not each look is one at its work.
const maxLooks = 2 * waiting.FailurePolls

// answersMore answers calls whose work is done, begins the next part of copies, and says whether
// more may come of it. Where device memory may be out nothing is begun.
func (w *Worker) answersMore(in *answers) bool {
	if w.waiting.Len() == 0 || w.hold.still || in.looks == maxLooks || time.Now().After(in.until) {
		return false
	}
	if in.looks++; w.pollWaiters() || w.copies.Active() {
		in.looks = 0
	}
	return true
}

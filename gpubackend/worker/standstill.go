// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// pauseUntilResume leaves the guest's memory alone until the device process gives the queue back.
// What was begun ends before: a kernel or a copy that goes on would write to pages that may be
// another driver's by then. Nothing is taken from the ring meanwhile. The device process has the
// patience, and kills a worker for whose work it lasts too long.
func (w *Worker) pauseUntilResume() error {
	w.launcher.Flush()
	if err := w.awaitStandstill(); err != nil {
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

// awaitStandstill obeys messages until nothing is under way any more. The pause between two looks
// grows with the time that this takes.
func (w *Worker) awaitStandstill() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for begin := time.Now(); !w.standsStill(); {
		w.watchdog.turn()
		timer.Reset(min(max(time.Since(begin)/pausePart, minPause), maxPause))
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

// standsStill says whether nothing that was begun for the guest goes on: no chunk of a copy is on
// its way, and every context is idle. Of a copy in several chunks the rest is begun after the
// pause.
func (w *Worker) standsStill() bool {
	w.transfers.Poll()
	if w.transfers.Active() {
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

// SPDX-License-Identifier: Apache-2.0

package standstill

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/waiting"
)

// Pause leaves the guest's memory alone until the device process gives the queue back. What was
// begun ends first: a kernel or a copy that goes on would write to pages that may be another
// driver's by then. Meanwhile nothing is taken from the ring. The device process waits as long as
// grace says, and then kills the worker.
//
// Waiting calls are answered as well, if that is possible in half of that time: a VM that pauses
// may be about to be saved, which waiting calls prevent.
func (h *Halt) Pause(grace time.Duration) error {
	h.Launcher.Flush()
	asked := h.masters
	if err := h.awaitStandstill(grace / 2); err != nil || asked != h.masters {
		return err
	}
	h.Gate.Standstill()
	h.Pages.MarkHeld()
	if err := h.Send(&handover.Message{Kind: handover.KindPaused}); err != nil {
		return err
	}
	h.paused = true
	return h.whileHeld()
}

// awaitStandstill obeys messages until nothing is under way any more, and for that time answers
// waiting calls; or until another device process has taken over, which asks again.
func (h *Halt) awaitStandstill(answering time.Duration) error {
	l := newLooks()
	defer l.timer.Stop()
	in, asked := answers{until: time.Now().Add(answering)}, h.masters
	for asked == h.masters && (!h.mayPause() || h.answersMore(&in)) {
		h.Watchdog.Turn()
		if err := h.next(l); err != nil {
			return err
		}
	}
	return nil
}

// mayPause says whether the worker stands still, or whether all that is under way waits for host
// functions of the guest, and no function that has returned is still to be noted.
func (h *Halt) mayPause() bool {
	h.advance()
	return h.StandsStill() || !h.Copies.Active() && h.Driver.AwaitsHost()
}

// answers is how waiting calls are answered while what was begun comes to an end.
type answers struct {
	until time.Time
	looks int // without an answer
}

// maxLooks is the number of looks without an answer after which none is expected. For a call whose
// answer is announced not every look asks the driver.
const maxLooks = 2 * waiting.FailurePolls

// answersMore answers calls whose work is done, begins the next parts of copies, and says whether
// to go on. If device memory may be out nothing is begun.
func (h *Halt) answersMore(in *answers) bool {
	if h.Calls.Len() == 0 || h.still || in.looks == maxLooks || time.Now().After(in.until) {
		return false
	}
	if in.looks++; h.Loop.Poll() || h.Copies.Active() {
		in.looks = 0
	}
	return true
}

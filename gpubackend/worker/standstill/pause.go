// SPDX-License-Identifier: Apache-2.0

package standstill

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/waiting"
)

// Pause leaves the guest's memory alone until the device process gives the queue back. What was
// begun ends before: a kernel or a copy that goes on would write to pages that may be another
// driver's by then. Nothing is taken from the ring meanwhile. The device process has the patience,
// for as long as grace says, and kills a worker for whose work it lasts too long.
//
// Calls that wait are answered as well, as far as that comes in half of the time: a VM that pauses
// may be about to be saved, and what would have to be answered then can't be.
func (h *Halt) Pause(grace time.Duration) error {
	h.Launcher.Flush()
	asked := h.masters
	if err := h.awaitStandstill(grace / 2); err != nil || asked != h.masters {
		return err
	}
	h.Gate.Standstill()
	h.Paused()
	if err := h.Send(&handover.Message{Kind: handover.KindPaused}); err != nil {
		return err
	}
	h.paused = true
	return h.whileHeld()
}

// awaitStandstill obeys messages until nothing is under way any more, and for so long calls that
// wait, or until another device process has taken over: it asks again.
func (h *Halt) awaitStandstill(answering time.Duration) error {
	l := newLooks()
	defer l.timer.Stop()
	in, asked := answers{until: time.Now().Add(answering)}, h.masters
	for asked == h.masters && (!h.mayPause() || h.answersMore(&in)) {
		h.Turn()
		if err := h.next(l); err != nil {
			return err
		}
	}
	return nil
}

// mayPause says whether the worker stands still, or goes on only when the guest has run host
// functions: those that it is known to have run are over.
func (h *Halt) mayPause() bool {
	h.advance()
	return h.StandsStill() || !h.Copies.Active() && h.Driver.AwaitsHost()
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
func (h *Halt) answersMore(in *answers) bool {
	if h.Calls.Len() == 0 || h.still || in.looks == maxLooks || time.Now().After(in.until) {
		return false
	}
	if in.looks++; h.Poll() || h.Copies.Active() {
		in.looks = 0
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package worker

// How often linger looks: 1 to 2 us without a waiting call, 4 to 8 us with one, as long as a pause
// takes 20 to 50 ns.
const (
	lingerIdle    = 32
	lingerWaiting = 128
)

// linger waits for a short time in a loop that touches next to nothing: what the driver has in the
// caches for the next launch stays there. It says whether the time passed with nothing to do;
// false: there is something, or others need turns of the loop.
func (w *Worker) linger() (idle bool) {
	if w.waiting.Len() > 1 || !w.batch.until.IsZero() || w.hostFuncs.Busy() ||
		w.copies.Active() {
		return false
	}
	if w.waiting.Len() == 0 {
		for range lingerIdle {
			if w.arena.Pending() {
				return false
			}
			pause()
		}
		return true
	}
	slot, seq, announced := w.waiting.Announced()
	if !announced {
		return false
	}
	for range lingerWaiting {
		if w.arena.Pending() || w.arena.Answered(slot, seq) {
			return false
		}
		pause()
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package sleeping

// How often Linger looks: 1 to 2 us without a waiting call, 4 to 8 us with one, as long as a pause
// takes 20 to 50 ns.
const (
	lingerIdle    = 32
	lingerWaiting = 128
)

// Linger waits for a short time in a loop that touches almost nothing, so that the driver's data
// for the next launch stays in the caches. It says whether the time passed with nothing to do;
// false: there is something, or others need turns of the loop.
func (s *Sleeping) Linger() (idle bool) {
	waiting := s.Calls.Len()
	if waiting > 1 || !s.Grows().IsZero() || s.HostFuncs.Busy() || s.Copies.Active() {
		return false
	}
	a := s.Arena()
	if waiting == 0 {
		for range lingerIdle {
			if a.Pending() {
				return false
			}
			pause()
		}
		return true
	}
	slot, seq, announced := s.Calls.Announced()
	if !announced {
		return false
	}
	for range lingerWaiting {
		if a.Pending() || a.Answered(slot, seq) {
			return false
		}
		pause()
	}
	return true
}

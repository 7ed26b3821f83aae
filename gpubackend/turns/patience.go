// SPDX-License-Identifier: Apache-2.0

package turns

import "time"

// A program that waits for its kernels is away from the GPU between two of them: for as long as it
// takes to hear of the end of one and to submit the next. If its turn passed on each time, it would
// have one kernel for each turn of the others, whatever its weight. So the GPU waits for a VM that
// is owed its time and is known to come back soon.

// patiencePart is what part of the work between two rests a rest may last to be waited for: what
// waiting may cost of the GPU's time. averaged is over how many of them averages go, more or less.
const (
	patiencePart = 8
	averaged     = 8
)

// habit is how long a VM works and rests, going by the last times.
type habit struct {
	resting bool
	since   Time          // of the rest
	held    time.Duration // what the VM had held when its work began
	work    time.Duration // GPU time between two rests
	rest    time.Duration
	rests   bool // one was seen from its beginning to its end
}

// begins notes that a VM has nothing to do from now on.
func (h *habit) begins(now Time, held time.Duration) {
	if h.resting {
		return
	}
	h.resting, h.since = true, now
	h.work = average(h.work, held-h.held, h.work != 0)
}

// ends notes that a VM has something to do.
func (h *habit) ends(now Time, held time.Duration) {
	if !h.resting {
		return
	}
	h.resting, h.held = false, held
	// A long rest isn't remembered for longer than it takes to see that they are short again.
	h.rest = average(h.rest, min(now-h.since, h.work), h.rests)
	h.rests = true
}

// average moves an average on.
func average(of, value time.Duration, known bool) time.Duration {
	if !known {
		return value
	}
	return of + (value-of)/averaged
}

// expected is until when a VM that rests is likely to come back, if it is to be waited for.
func (v *vm) expected() Time {
	h := &v.habit
	patience := min(h.work/patiencePart, v.policy.Turn)
	if !h.resting || !h.rests || h.rest > patience {
		return 0
	}
	return h.since + patience
}

// awaits says whether the GPUs of a VM that rests are better kept for it for a moment: it is likely
// to be back soon, and would be next even if it had done half of what it does then.
func (s *Scheduler) awaits(v *vm) bool {
	if s.now >= v.expected() || !v.mayBegin() {
		return false
	}
	after := v.charged + v.weighted(v.habit.work/2)
	somebody := false
	for _, w := range s.all {
		if w.gpus&v.gpus == 0 || !w.asks() {
			continue
		}
		if w.charged < after || s.order(w, v) < 0 {
			return false
		}
		somebody = true
	}
	return somebody
}

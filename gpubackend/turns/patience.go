// SPDX-License-Identifier: Apache-2.0

package turns

import "time"

// This file has the two reasons to keep a GPU for a VM that rests.

// A program that waits for its kernels is away from the GPU between two of them: for as long as it
// takes to learn that one has ended and to submit the next. If its turn passed on each time, it
// would run one kernel for each turn of the others, whatever its weight. So the first reason: the
// GPU waits for a VM that is owed time and usually comes back soon.

// patiencePart: a rest is waited for if it lasts at most this part of the work between two rests.
// This is what waiting may cost of the GPU's time. averaged is over how many of them averages are
// taken, roughly.
const (
	patiencePart = 8
	averaged     = 8
)

// habit is how long a VM works and rests, judged by the last times.
type habit struct {
	resting bool
	since   Time          // of the rest
	held    time.Duration // what the VM had held when its work began
	work    time.Duration // GPU time between two rests
	rest    time.Duration
	rests   bool          // one was seen from its beginning to its end
	usual   time.Duration // a rest, the long ones counted as longRest
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
	// A long rest is forgotten as soon as rests are short again.
	h.rest = average(h.rest, min(now-h.since, h.work), h.rests)
	h.usual = average(h.usual, min(now-h.since, longRest), h.rests)
	h.rests = true
}

// average updates an average.
func average(of, value time.Duration, known bool) time.Duration {
	if !known {
		return value
	}
	return of + (value-of)/averaged
}

// expected is by when a VM that rests is likely to come back, if it should be waited for.
func (v *vm) expected() Time {
	h := &v.habit
	patience := min(h.work/patiencePart, v.policy.Turn)
	if !h.resting || !h.rests || h.rest > patience {
		return 0
	}
	return h.since + patience
}

// awaits says whether the GPUs should be kept for a moment for a VM that rests: it is likely to be
// back soon, and would still be next after half of the work that it then does.
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

// The second reason: each change of VMs costs the GPU some 150 us, whoever is owed time (H100,
// docs/measurements). So a VM that rests inside its turn, and whose rests are usually short, keeps
// its turn for about as long as a change would cost. That is for programs that wait for each kernel
// and are late once, as happens in guests. The cost is bounded by a part of the VM's work.
//
// A VM of the latency class keeps its turn for longer, however little it works in between, since
// each of its answers takes many kernels: if the turn passed on at each rest between these, it
// would wait each time for what others had begun meanwhile. It is charged for that time, and must
// not be ahead of its share.
const (
	keepPart = 32                   // part of its work that a VM of class Batch saves up for this
	keepMost = 2 * time.Millisecond // that it may save up
	longRest = 300 * time.Microsecond
)

// grace bounds a rest for which a turn is kept, and the VM's usual rest.
type grace struct{ rest, usual time.Duration }

// graces are the graces of the classes. For Latency a turn is kept if about one rest in four is
// short.
var graces = [...]grace{
	Batch:   {200 * time.Microsecond, 60 * time.Microsecond},
	Latency: {longRest, 240 * time.Microsecond},
}

// saves counts the time for which a VM's turn may be kept: it grows with the VM's work, and is
// spent while the VM is awaited.
func (v *vm) saves(gone time.Duration) {
	switch {
	case v.phase == awaited:
		v.keep = max(0, v.keep-gone)
	case v.phase == running && !v.demand.none():
		v.keep = min(keepMost, v.keep+gone/keepPart)
	}
}

// keptUntil is how long the turn of a VM that rests is kept, if the rest is inside the turn and the
// VM is likely to be back soon.
func (v *vm) keptUntil(now Time) Time {
	h, g := &v.habit, graces[v.policy.Class]
	if !h.resting || !h.rests || h.usual > g.usual {
		return 0
	}
	until := h.since + g.rest
	if v.policy.Class == Batch {
		until = min(until, v.until, now+v.keep)
	}
	return until
}

// keeps says whether a resting VM's turn is kept. It isn't if a VM of the latency class waits.
func (s *Scheduler) keeps(v *vm, w wants) bool {
	return w.urgent&v.gpus == 0 && s.now < v.keptUntil(s.now) &&
		(v.policy.Class == Batch || s.urgent(v))
}

// again says whether a VM would get the next turn as well, since it is the only one of the latency
// class that wants it: its turn goes on then.
func (s *Scheduler) again(v *vm, w wants) bool {
	return s.urgent(v) && w.urgent&v.gpus == 0
}

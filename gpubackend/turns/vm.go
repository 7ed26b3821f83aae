// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"math/bits"
	"time"
)

// phase is where a VM is between two turns.
type phase int

const (
	idle     phase = iota // has nothing to do; its gate is closed
	waiting               // has work; its gate is closed
	running               // has its turn; its gate is open
	awaited               // has nothing to do for a moment; its GPUs are kept, its gate is open
	parked                // its gate is open, it has nothing to do, and nobody else wants its GPUs
	draining              // its turn is over, its gate is closed, work is still on the GPU
	overrun               // its work didn't end in time: others have their turns beside it
)

// holds says whether a VM in this phase keeps others from its GPUs.
func (p phase) holds() bool { return p == running || p == awaited || p == draining }

// open says whether the gate is open.
func (p phase) open() bool { return p == running || p == awaited || p == parked }

// virtual is virtual time: nanoseconds of GPU time, divided by a weight.
type virtual float64

// vm is a VM that has joined.
type vm struct {
	id     ID
	name   string
	gpus   GPUs
	policy Policy
	auto   bool // nobody has set the length of its turns
	demand Demand

	phase   phase
	charged virtual
	since   Time // of the phase
	settled Time // charged up to here
	until   Time // end of the turn
	empty   Time // since when it has had nothing to do; meaningful while it runs
	habit   habit
	keep    time.Duration // for how long its turn may be kept while it rests
	late    bool          // it has overrun a turn with what is on the GPU
	unsure  bool          // its turn has ended, and it hasn't reported since
	tokens  time.Duration
	filled  Time // tokens were counted up to here

	told  Gate // what its owner was last told
	stats Stats
}

// asks says whether a VM wants a turn. One whose work doesn't end may want it, too: what it waits
// for may be work that is still behind its gate.
func (v *vm) asks() bool {
	return (v.phase == waiting || v.phase == overrun && v.demand.Waiting) && v.mayBegin()
}

// mayResume says whether a VM whose turn has ended, but not its work, may go on at once: if the VMs
// for which the turn ended have nothing more to do.
func (v *vm) mayResume() bool {
	return v.phase == draining && !v.unsure && !v.late && v.demand.Waiting && v.mayBegin()
}

// weighted is a time in the VM's virtual time.
func (v *vm) weighted(d time.Duration) virtual { return virtual(d) / virtual(v.policy.Weight) }

// first is the VM's first GPU, by which it is charged.
func (v *vm) first() int { return bits.TrailingZeros64(uint64(v.gpus)) }

// limited says whether there is a limit on its time.
func (v *vm) limited() bool { return v.policy.Limit < MaxLimit }

// bucket is how many tokens a VM may save up.
func (v *vm) bucket(c *Config) time.Duration { return time.Duration(c.Burst) * v.policy.Turn }

// settle charges a VM for the time since it was last charged, in which a number of VMs shared its
// GPUs.
func (v *vm) settle(now Time, sharers int, c *Config) {
	gone := now - v.settled
	v.settled = now
	v.saves(gone)
	switch v.phase {
	case waiting:
		v.stats.Waited += gone
	case running, awaited, draining, overrun:
		v.charge(gone / time.Duration(max(1, sharers)))
	}
	v.fill(now, c)
}

func (v *vm) charge(d time.Duration) {
	v.charged += v.weighted(d)
	v.stats.Held += d
	v.tokens -= d
}

// fill puts what has come in since the last time into the bucket.
func (v *vm) fill(now Time, c *Config) {
	v.tokens += (now - v.filled) * time.Duration(v.policy.Limit) / MaxLimit
	v.tokens = min(v.tokens, v.bucket(c))
	v.filled = now
}

// allowed says whether the VM's limit lets its turn go on.
func (v *vm) allowed() bool { return !v.limited() || v.tokens > 0 }

// mayBegin says whether the VM's limit lets it have a turn: one of full length, since its workers
// wake up in the time that it is charged for.
func (v *vm) mayBegin() bool { return !v.limited() || v.tokens >= v.policy.Turn }

// beginsAt is when a VM may begin a turn that its limit doesn't allow yet.
func (v *vm) beginsAt(now Time) Time {
	return now + (v.policy.Turn-v.tokens)*MaxLimit/time.Duration(v.policy.Limit) + 1
}

// spentAt is when the tokens of a VM that runs will be spent.
func (v *vm) spentAt(now Time) Time {
	if !v.limited() {
		return never
	}
	return now + max(0, v.tokens)*MaxLimit/time.Duration(MaxLimit-v.policy.Limit)
}

// turn is the number of the VM's turn. One that begins with the VM's next work has its number
// already.
func (v *vm) turn() uint64 {
	if v.phase == parked {
		return v.stats.Turns + 1
	}
	return v.stats.Turns
}

// enter changes the phase. The VM must be settled.
func (v *vm) enter(p phase, now Time) {
	v.phase, v.since = p, now
}

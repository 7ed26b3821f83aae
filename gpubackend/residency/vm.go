// SPDX-License-Identifier: Apache-2.0

package residency

import "time"

// phase is where a VM's memory is.
type phase int

const (
	in       phase = iota
	leaving        // ordered out
	out            // in the host's memory
	entering       // ordered in
)

// String is the phase for people.
func (p phase) String() string { return [...]string{"resident", "leaving", "out", "entering"}[p] }

// vm is a VM that has joined.
type vm struct {
	id     ID
	policy Policy
	told   Holding

	phase   phase
	granted uint64 // of the GPU's memory, if it moves: never below what it has when it is in
	want    uint64 // in total, if it wants more than it was granted; else 0
	since   Time   // of the grant
	charged virtual
	entered Time // when it came in
	resting Time // it isn't moved before that, since it couldn't be
	stats   Stats
}

// virtual is virtual time: nanoseconds in, divided by a weight.
type virtual float64

// taken is how much others can't have.
func (v *vm) taken() uint64 {
	switch {
	case !v.policy.moves(): // also if it is out: it will come back
		return max(v.told.Have, v.policy.Guarantee)
	case v.phase == out:
		return v.told.Stays
	}
	return max(v.told.Have, v.granted)
}

// moved is how much is free once the VM has left.
func (v *vm) moved() uint64 { return v.taken() - min(v.taken(), v.told.Stays) }

// needs is how much the VM is granted when it comes in, or gets what it wants.
func (v *vm) needs() uint64 { return max(v.want, v.told.Have, v.told.Stays) }

// wants says whether the VM waits for room.
func (v *vm) wants() bool {
	switch v.phase {
	case in:
		return v.policy.moves() && v.want > v.granted
	case out:
		return v.told.Busy || v.want > 0 || !v.policy.moves()
	}
	return false
}

// idle says whether nothing is lost if the VM moves out.
func (v *vm) idle() bool { return !v.told.Busy || v.want > v.granted }

// mayLeave says whether the VM can be moved out now.
func (v *vm) mayLeave(now Time) bool {
	return v.policy.moves() && v.phase == in && now >= v.resting && !v.told.Stopped
}

// yields says whether the VM should make room for another one now.
func (v *vm) yields(now Time, to *vm) bool {
	return v.idle() || v.charged > to.charged && now >= v.entered+MinTurn
}

// charge charges the VM for the time that it was in, while others waited.
func (v *vm) charge(d time.Duration) {
	if v.phase == in && !v.wants() {
		v.charged += virtual(d) / virtual(v.policy.Weight)
	}
}

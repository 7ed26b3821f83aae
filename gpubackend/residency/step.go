// SPDX-License-Identifier: Apache-2.0

package residency

import (
	"cmp"
	"slices"
	"time"
)

// used is what all VMs have or were granted.
func (s *Scheduler) used() (sum uint64) {
	for _, v := range s.all {
		sum += v.taken()
	}
	return sum
}

// lacks is how much must be freed before a VM can have this much; nil: before there is room for
// what all have now.
func (s *Scheduler) lacks(v *vm, bytes uint64) uint64 {
	if s.total == 0 {
		return 0
	}
	need := s.used()
	if v != nil {
		need += bytes - min(bytes, v.taken())
	}
	return need - min(need, s.total)
}

// grant grants this much to a VM that is in, and tells it.
func (s *Scheduler) grant(v *vm, bytes uint64) {
	v.granted, v.want, v.since = bytes, 0, s.now
	o := Order{VM: v.id, Kind: Grant, Bytes: bytes}
	if s.total == 0 || !v.policy.moves() {
		o.Bytes = 0
	}
	s.orders = append(s.orders, o)
}

// bound tells a VM that is in how much it may have now.
func (s *Scheduler) bound(v *vm) { s.grant(v, s.rounded(v, v.told.Have)) }

// step is the unit in which VMs are granted memory, if there is enough: a part of the GPU's.
func (s *Scheduler) unit() uint64 { return max(1, s.total/64) }

// rounded is how much a VM is granted: more than it wants, so that it needn't ask for each bit.
func (s *Scheduler) rounded(v *vm, bytes uint64) uint64 {
	if more := (bytes/s.unit() + 2) * s.unit(); s.lacks(v, more) == 0 {
		return more
	}
	return max(1, bytes) // 0 would be no bound
}

// shrink takes back what a VM hasn't needed for a while.
func (s *Scheduler) shrink(v *vm) {
	if s.now < v.since+keep {
		return
	}
	if fits := (v.told.Have/s.unit() + 2) * s.unit(); s.total != 0 && v.granted > fits {
		s.grant(v, fits)
	}
}

// step issues the orders that are due.
func (s *Scheduler) step() {
	s.again = never
	for _, v := range s.all { // these need no others to move
		if v.phase == in && v.wants() && s.lacks(v, v.needs()) == 0 {
			s.grant(v, s.rounded(v, v.needs()))
		}
	}
	if s.on && !s.arrived() {
		return
	}
	if !s.on {
		s.begin()
	}
}

// arrived continues a switch, and says whether it is over.
func (s *Scheduler) arrived() bool {
	for _, v := range s.all {
		if v.phase != leaving && v.phase != entering {
			continue
		}
		if s.now < s.due {
			s.again = s.due
			return false
		}
		s.failed(v)
	}
	if n := s.next; n != nil && n.phase == out && n.wants() && s.now >= n.resting &&
		s.lacks(n, n.needs()) == 0 {
		s.enter(n)
		return false
	}
	s.on, s.next = false, nil
	if s.moved {
		s.quiet = s.now + max(MinTurn, Pace*(s.now-s.since))
	}
	return true
}

// enter orders a VM in.
func (s *Scheduler) enter(v *vm) {
	if !s.on {
		s.on, s.since, s.moved = true, s.now, false
	}
	s.next = v
	v.since = s.now
	v.phase, v.granted = entering, s.rounded(v, v.needs())
	s.until(v.needs())
	s.orders = append(s.orders, Order{v.id, In, v.granted})
}

// begin begins a switch if one is due.
func (s *Scheduler) begin() {
	if s.lacks(nil, 0) > 0 && s.relieve() {
		return
	}
	tried := map[*vm]bool{}
	for {
		v := s.first(func(v *vm) bool { return !tried[v] })
		if v == nil {
			return
		}
		if tried[v] = true; s.serve(v) {
			return
		}
	}
}

// relieve moves VMs out if those that stay have more than is left. It says whether it did.
func (s *Scheduler) relieve() bool {
	if s.now < s.quiet {
		s.again = min(s.again, s.quiet)
		return false
	}
	victims, enough := s.choose(s.lacks(nil, 0), func(v *vm) bool {
		return v.mayLeave(s.now) && s.everFits(v)
	})
	if !enough {
		return false
	}
	s.leave(victims, nil)
	return true
}

// serve makes room for the VM that is next, now or later. It says whether others must wait for
// that. A VM that could never come back isn't moved out for one that takes turns.
func (s *Scheduler) serve(v *vm) bool {
	if s.now < v.resting {
		s.again = min(s.again, v.resting)
		return false
	}
	lacks := s.lacks(v, v.needs())
	if lacks == 0 {
		if s.now < s.quiet {
			s.again = min(s.again, s.quiet)
			return true
		}
		s.enter(v)
		return true
	}
	others := func(w *vm) bool {
		return w != v && w.mayLeave(s.now) && (s.everFits(w) || !v.policy.moves())
	}
	if _, enough := s.choose(lacks, others); !enough {
		s.refuse(v)
		return false
	}
	victims, enough := s.choose(lacks, func(w *vm) bool { return others(w) && w.yields(s.now, v) })
	switch {
	case s.now < s.quiet:
		s.again = min(s.again, s.quiet)
	case !enough:
		s.again = min(s.again, s.now+look)
	default:
		s.leave(victims, v)
	}
	return true
}

// refuse denies a VM what it wants. One that is out goes on waiting, for what it had.
func (s *Scheduler) refuse(v *vm) {
	if v.want > 0 && (v.phase == in || !s.everFits(v)) {
		v.want = 0
		s.orders = append(s.orders, Order{VM: v.id, Kind: Deny})
	}
	s.again = min(s.again, s.now+MinRest)
}

// everFits says whether there is room for a VM if all others are out.
func (s *Scheduler) everFits(v *vm) bool {
	sum := v.needs()
	for _, w := range s.all {
		switch {
		case w == v:
		case w.policy.moves():
			sum += w.told.Stays
		default:
			sum += w.taken()
		}
	}
	return s.total == 0 || sum <= s.total
}

// choose chooses which VMs move out to free this many bytes, and says whether they are enough:
// first those with nothing to do, then those that were charged most.
func (s *Scheduler) choose(bytes uint64, may func(*vm) bool) (list []*vm, enough bool) {
	var all []*vm
	for _, v := range s.all {
		if may(v) && v.moved() > 0 {
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b *vm) int {
		if a.idle() != b.idle() {
			if a.idle() {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.charged, a.charged)
	})
	for _, v := range all {
		if bytes == 0 {
			break
		}
		bytes -= min(bytes, v.moved())
		list = append(list, v)
	}
	return list, bytes == 0
}

// leave orders VMs out for another one.
func (s *Scheduler) leave(victims []*vm, next *vm) {
	s.on, s.next, s.since, s.moved = true, next, s.now, false
	sum := uint64(0)
	for _, v := range victims {
		sum += v.moved()
		v.phase = leaving
		s.orders = append(s.orders, Order{VM: v.id, Kind: Out})
	}
	s.until(sum)
}

// until is by when this many bytes must have moved.
func (s *Scheduler) until(bytes uint64) {
	s.due = s.now + OrderLimit + time.Duration(bytes/slowest)*time.Second
	s.again = s.due
}

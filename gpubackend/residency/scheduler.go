// SPDX-License-Identifier: Apache-2.0

package residency

import (
	"math"
	"slices"
	"time"
)

// Time is a moment, counted from any fixed one. It never goes back.
type Time = time.Duration

// never is a deadline that doesn't come.
const never Time = math.MaxInt64

// Bounds.
const (
	// Pace is how many times longer than a switch the pause after it is.
	Pace = 10
	// MinTurn is the least time for which a VM is in that has something to do.
	MinTurn = 200 * time.Millisecond
	// MinRest and MaxRest bound for how long a VM isn't asked again after it couldn't be moved.
	MinRest, MaxRest = time.Second, time.Minute
	// OrderLimit is how long a VM may take to move, plus a second for each slowest bytes.
	OrderLimit = 2 * time.Minute
	slowest    = 100 << 20
	// keep is the least time for which a VM has what it was granted.
	keep = 2 * time.Second
	// look is how often a waiting VM's charge is compared with the others'.
	look = 20 * time.Millisecond
)

// ID names a VM. The owner chooses it.
type ID uint64

// Policy is what is set for a VM.
type Policy struct {
	Weight    int
	Swap      bool   // its memory may be moved out
	Guarantee uint64 // is kept for it; a VM that has one stays
}

func (p Policy) moves() bool { return p.Swap && p.Guarantee == 0 }

// Holding is what is reported about a VM.
type Holding struct {
	Have    uint64 // bytes that it has on the GPU, or would have if it were in
	Stays   uint64 // of them, bytes that stay there when it is out
	Busy    bool   // it has work
	Stopped bool   // by its owner: it has nothing to do, and obeys no order
	Out     bool   // its memory is out, when it joins
}

// Kind is what an order is for.
type Kind int

// The kinds of orders.
const (
	Out   Kind = iota // move out: to be answered by Moved
	In                // move in: to be answered by Moved
	Grant             // may have Bytes of the GPU's memory now; an In says so too
	Deny              // can't have what it wants
)

// Order is for a VM.
type Order struct {
	VM    ID
	Kind  Kind
	Bytes uint64 // of In and Grant; 0: there is no bound
}

// Stats are figures about a VM.
type Stats struct {
	State    string
	Resident time.Duration // time that it was in
	Out      time.Duration // time that it was out
	Swapping time.Duration // time that it took to move
	Swaps    uint64        // times that it moved out
	Moved    uint64        // bytes that it moved, out and in
	Failures uint64        // orders that it didn't obey
}

// Scheduler is the state of one GPU.
type Scheduler struct {
	total  uint64 // 0: not known, and not bounded
	vms    map[ID]*vm
	all    []*vm // the same, by ID
	now    Time
	clock  virtual // the least charge of those that wait; never goes back
	orders []Order

	// A switch.
	next  *vm // for which it is; nil: for those that stay
	since Time
	due   Time // of the orders that are under way
	moved bool // a VM has moved
	on    bool
	quiet Time // no switch begins before that
	again Time // when to look
}

// New returns the state of a GPU with so much memory and no VM; 0 is not known.
func New(total uint64) *Scheduler {
	return &Scheduler{total: total, vms: map[ID]*vm{}, again: never}
}

// SetTotal says how much memory there is.
func (s *Scheduler) SetTotal(now Time, total uint64) {
	s.settle(now)
	s.total = total
	s.step()
}

// Join adds a VM. If it is there already, nothing changes.
func (s *Scheduler) Join(now Time, id ID, p Policy, h Holding) {
	if _, ok := s.vms[id]; ok {
		return
	}
	s.settle(now)
	v := &vm{id: id, policy: p, charged: s.clock, entered: s.now}
	v.policy.Weight = max(1, p.Weight)
	s.vms[id] = v
	at, _ := slices.BinarySearchFunc(s.all, id, func(v *vm, id ID) int { return int(v.id - id) })
	s.all = slices.Insert(s.all, at, v)
	v.told = clean(h)
	switch {
	case h.Out:
		v.phase = out
	case p.moves():
		s.bound(v)
	}
	s.step()
}

// Leave removes a VM. If it isn't there, nothing changes.
func (s *Scheduler) Leave(now Time, id ID) {
	v, ok := s.vms[id]
	if !ok {
		return
	}
	s.settle(now)
	delete(s.vms, id)
	s.all = slices.DeleteFunc(s.all, func(w *vm) bool { return w == v })
	if s.next == v {
		s.next = nil
	}
	s.step()
}

// Set changes a VM's policy.
func (s *Scheduler) Set(now Time, id ID, p Policy) {
	v, ok := s.vms[id]
	if !ok || v.policy == p {
		return
	}
	s.settle(now)
	moved := v.policy.moves()
	v.policy = p
	v.policy.Weight = max(1, p.Weight)
	if moves := v.policy.moves(); moves != moved && v.phase == in {
		s.bound(v)
	}
	s.step()
}

// Report tells what a VM has from now on.
func (s *Scheduler) Report(now Time, id ID, h Holding) {
	v, ok := s.vms[id]
	if !ok {
		return
	}
	s.settle(now)
	if h.Busy && !v.told.Busy {
		v.charged = max(v.charged, s.clock)
	}
	v.told = clean(h)
	if v.phase == in && v.policy.moves() && v.want <= v.granted {
		s.shrink(v)
	}
	s.step()
}

// clean bounds what was told, so that sums don't overflow.
func clean(h Holding) Holding {
	const most = 1 << 48
	h.Have = min(h.Have, most)
	h.Stays = min(h.Stays, h.Have)
	return h
}

// Want says how much a VM wants in total.
func (s *Scheduler) Want(now Time, id ID, bytes uint64) {
	v, ok := s.vms[id]
	if !ok {
		return
	}
	s.settle(now)
	v.want = min(bytes, 1<<48)
	v.told.Busy = true
	if v.phase == in && !v.wants() {
		s.grant(v, v.granted)
	}
	s.step()
}

// Moved says that a VM has obeyed an Out or In, or couldn't.
func (s *Scheduler) Moved(now Time, id ID, obeyed bool) {
	v, ok := s.vms[id]
	if !ok || v.phase != leaving && v.phase != entering {
		return
	}
	s.settle(now)
	switch {
	case !obeyed:
		s.failed(v)
	case v.phase == leaving:
		s.moved = true
		v.phase = out
		v.stats.Swaps++
		v.stats.Moved += v.told.Have - v.told.Stays
	default:
		s.moved = true
		v.phase, v.entered = in, s.now
		v.stats.Moved += v.told.Have - v.told.Stays
		if v.want <= v.granted {
			v.want = 0
		}
	}
	s.step()
}

// Found says where a VM's memory is, whatever it was ordered to do before. It is for reports while
// no order is under way.
func (s *Scheduler) Found(now Time, id ID, isOut bool) {
	v, ok := s.vms[id]
	if !ok || v.phase == leaving || v.phase == entering || isOut == (v.phase == out) {
		return
	}
	s.settle(now)
	if isOut {
		v.phase = out
	} else {
		v.phase, v.entered = in, s.now
		s.bound(v)
	}
	s.step()
}

// failed takes an order back.
func (s *Scheduler) failed(v *vm) {
	v.stats.Failures++
	v.resting = s.now + min(max(MinRest, Pace*(s.now-s.since)), MaxRest)
	switch v.phase {
	case leaving:
		v.phase = in
	case entering:
		v.phase = out
	}
}

// Tick is called at the deadline.
func (s *Scheduler) Tick(now Time) {
	s.settle(now)
	s.step()
}

// Deadline is when Tick is to be called.
func (s *Scheduler) Deadline() Time { return s.again }

// Orders are those that have come since the last call, for the owner to carry out in their order.
func (s *Scheduler) Orders() []Order {
	list := s.orders
	s.orders = nil
	return list
}

// Stats tells of a VM.
func (s *Scheduler) Stats(now Time, id ID) (Stats, bool) {
	v, ok := s.vms[id]
	if !ok {
		return Stats{}, false
	}
	s.settle(now)
	st := v.stats
	st.State = v.phase.String()
	return st, true
}

// settle moves the time forward.
func (s *Scheduler) settle(now Time) {
	gone := max(0, now-s.now)
	s.now += gone
	first := s.first(func(*vm) bool { return true })
	if first != nil {
		s.clock = max(s.clock, first.charged)
	}
	for _, v := range s.all {
		switch v.phase {
		case in:
			v.stats.Resident += gone
		case out:
			v.stats.Out += gone
		default:
			v.stats.Swapping += gone
		}
		if first != nil || s.on {
			v.charge(gone)
		}
	}
}

// first is the waiting VM that was charged least, of those that are allowed.
func (s *Scheduler) first(may func(*vm) bool) (first *vm) {
	for _, v := range s.all {
		if v.wants() && !v.told.Stopped && (first == nil || v.charged < first.charged) && may(v) {
			first = v
		}
	}
	return first
}

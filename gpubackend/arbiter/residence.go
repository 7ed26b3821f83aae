// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"cmp"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/residency"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// VMs whose memory-mode is swap take turns with a GPU's memory (package residency). Their device
// processes say where their memory is (link.Place), and are told where it is to be (link.Order). A
// place counts only if it names the last order: one that was sent before the order was obeyed
// doesn't undo it.

// busyFor is how long a VM counts as busy after it had work.
const busyFor = 300 * time.Millisecond

// residence is where a member's memory is, and is to be.
type residence struct {
	place  link.Place
	order  link.Order
	moving bool // the order isn't obeyed yet
	told   residency.Holding
	news   chan struct{} // has something when there is another order
	worked turns.Time    // when it last had work
	held   time.Duration // what it was charged for until then
}

// memories are the GPUs of members, by their names.
type memories map[string]*residency.Scheduler

// of is the memory of a member's GPU; nil: it has several GPUs, so it stays.
func (m memories) of(x *member) *residency.Scheduler {
	if len(x.gpus) != 1 {
		return nil
	}
	name := x.gpus[0].Name
	if m[name] == nil {
		m[name] = residency.New(0)
	}
	return m[name]
}

// stays is what is set for a member's memory.
func (m *member) stays() residency.Policy {
	return residency.Policy{
		Weight:    cmp.Or(m.policy.Time.Weight, turns.DefaultWeight),
		Guarantee: m.policy.Guarantee, Swap: m.policy.Mode == policy.ModeSwap,
	}
}

// holding is what package residency is told about a member.
func (m *member) holding(now turns.Time) residency.Holding {
	p := &m.residence.place
	busy := p.Work
	if !p.Out {
		busy = busy || m.gate.Free || now < m.residence.worked+busyFor
	}
	return residency.Holding{
		Have: p.Have, Stays: p.Stays, Busy: busy, Stopped: p.Stopped, Out: p.Out,
	}
}

// moveIn adds a member's memory.
func (l *loop) moveIn(now turns.Time, m *member) {
	s := l.memories.of(m)
	if s == nil {
		return
	}
	m.residence.worked = now
	m.residence.told = m.holding(now)
	s.SetTotal(now, l.memory(m.gpus[0].Name, m))
	s.Join(now, residency.ID(m.id), m.stays(), m.residence.told)
	l.carry()
}

// moveOut removes it.
func (l *loop) moveOut(now turns.Time, m *member) {
	s := l.memories.of(m)
	if s == nil {
		return
	}
	s.Leave(now, residency.ID(m.id))
	for _, other := range l.members {
		if l.memories.of(other) == s {
			s.SetTotal(now, l.memory(m.gpus[0].Name, other))
			l.carry()
			return
		}
	}
	delete(l.memories, m.gpus[0].Name)
}

// placed takes what a device process says of its VM's memory.
func (l *loop) placed(m *member, p *link.Place) {
	s := l.memories.of(m)
	if s == nil || l.members[m.id] != m {
		return
	}
	now, id, r := l.clock.now(), residency.ID(m.id), &m.residence
	before := r.place.Total
	r.place = *p
	if p.Total != before {
		s.SetTotal(now, l.memory(m.gpus[0].Name, m))
	}
	switch {
	case r.order.Serial != 0 && p.Serial != r.order.Serial: // the order is under way
		r.place.Out = r.told.Out
		l.carry()
		return
	case r.moving:
		r.moving = false
		if p.Out == r.order.Out && !p.Out {
			r.worked = now
		}
		r.told = m.holding(now)
		s.Moved(now, id, p.Out == r.order.Out)
		s.Found(now, id, p.Out) // if the report came too late to count
	default:
		s.Found(now, id, p.Out)
	}
	l.told(now, m, s)
	if p.Want > 0 {
		s.Want(now, id, p.Want)
	}
	l.carry()
}

// told passes on what a member reports.
func (l *loop) told(now turns.Time, m *member, s *residency.Scheduler) {
	m.residence.told = m.holding(now)
	s.Report(now, residency.ID(m.id), m.residence.told)
}

// lookAtMemory reports what has changed, and has VMs move whose turn has come.
func (l *loop) lookAtMemory(now turns.Time) {
	for _, m := range l.members {
		if s := l.memories.of(m); s != nil && m.holding(now) != m.residence.told {
			l.told(now, m, s)
		}
	}
	for _, s := range l.memories {
		if now >= s.Deadline() {
			s.Tick(now)
		}
	}
	l.carry()
}

// working notes whether a member has work.
func (m *member) working(now turns.Time, held time.Duration) {
	r := &m.residence
	if held != r.held || m.demand() != (turns.Demand{}) {
		r.held, r.worked = held, now
	}
}

// carry passes orders on to members.
func (l *loop) carry() {
	for _, s := range l.memories {
		for _, o := range s.Orders() {
			if m := l.members[turns.ID(o.VM)]; m != nil {
				m.residence.take(o)
			}
		}
	}
}

// next is a serial above the last one, and above those of an earlier arbiter.
func next(last uint64) uint64 { return max(last+1, uint64(Now())) }

// take turns an order into one for a device process.
func (r *residence) take(o residency.Order) {
	switch o.Kind {
	case residency.Out, residency.In:
		r.order.Serial = next(r.order.Serial)
		r.order.Out, r.moving = o.Kind == residency.Out, true
		if o.Kind == residency.In {
			r.order.Room = o.Bytes
			r.order.Grants = next(r.order.Grants)
		}
	case residency.Grant:
		r.order.Room = o.Bytes
		r.order.Grants = next(r.order.Grants)
	case residency.Deny:
		r.order.Denials = next(r.order.Denials)
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// orders returns a member's order.
func (a *Arbiter) orders(m *member) *link.Order {
	var o link.Order
	a.loop.do(func() { o = m.residence.order })
	return &o
}

// tellMemory adds where a member's memory is.
func (l *loop) tellMemory(v *link.VM, m *member) {
	s := l.memories.of(m)
	if s == nil || !m.stays().Swap {
		return
	}
	st, _ := s.Stats(l.clock.now(), residency.ID(m.id))
	v.Place, v.Swaps, v.Swapped = st.State, st.Swaps, st.Moved
	v.Unmoved = st.Failures
	v.SwapNS, v.OutNS, v.InNS = uint64(st.Swapping), uint64(st.Out), uint64(st.Resident)
}

// SPDX-License-Identifier: Apache-2.0

package residency

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// tenant is a simulated VM.
type tenant struct {
	id      ID
	policy  Policy
	bytes   uint64 // that it wants to have
	stays   uint64
	busy    func(now Time) bool
	fails   func() bool // whether an order out fails
	slow    float64     // seconds for a byte
	stopped bool

	// What the simulation knows.
	in       bool
	have     uint64 // on the GPU when it is in
	room     uint64 // 0: no bound
	asked    uint64
	doing    *Order
	done     Time // when
	resident time.Duration
	lastIn   Time
	longest  time.Duration // out with work
	denied   int
	outs     int
	moved    uint64 // bytes, out and in
}

// host is a simulated GPU with its tenants, who take what they are granted.
type host struct {
	t        *testing.T
	s        *Scheduler
	total    uint64
	now      Time
	tenants  map[ID]*tenant
	order    []ID
	swapping time.Duration // time in which something moved
	lied     bool          // tenants have more than there is: not looked at
}

func newHost(t *testing.T, total uint64) *host {
	return &host{t: t, s: New(total), total: total, tenants: map[ID]*tenant{}}
}

func (h *host) join(x *tenant) *tenant {
	x.id = ID(len(h.order) + 1)
	if x.busy == nil {
		x.busy = func(Time) bool { return true }
	}
	if x.fails == nil {
		x.fails = func() bool { return false }
	}
	x.in, x.lastIn = true, h.now
	if !x.policy.moves() {
		x.have = x.bytes
	}
	h.tenants[x.id], h.order = x, append(h.order, x.id)
	h.s.Join(h.now, x.id, x.policy, h.holding(x))
	h.obey()
	return x
}

func (h *host) leave(id ID) {
	delete(h.tenants, id)
	h.s.Leave(h.now, id)
	h.obey()
}

func (h *host) holding(x *tenant) Holding {
	return Holding{
		Have: x.have, Stays: min(x.stays, x.have), Busy: x.busy(h.now), Stopped: x.stopped,
		Out: !x.in,
	}
}

// obey takes the orders that there are.
func (h *host) obey() {
	orders := h.s.Orders()
	h.victims(orders)
	for _, o := range orders {
		x := h.tenants[o.VM]
		if x == nil {
			continue
		}
		switch o.Kind {
		case Out, In:
			if o.Kind == Out && (!x.policy.moves() || !x.in) || o.Kind == In && x.in {
				h.t.Fatalf("at %v: order %+v for %+v", h.now, o, x)
			}
			if x.doing != nil {
				h.t.Fatalf("at %v: a second order for %d", h.now, o.VM)
			}
			took := float64(x.have-min(x.stays, x.have)) * x.slow
			x.doing, x.done = &o, h.now+time.Duration(took*1e9)+time.Microsecond
			if o.Kind == In {
				x.room = o.Bytes
			}
		case Grant:
			x.room, x.asked = o.Bytes, 0
		case Deny:
			x.denied++
			x.bytes, x.asked = x.have, 0 // it goes on with less
		}
	}
	h.check()
}

// check compares what tenants have with what there is.
func (h *host) check() {
	if h.lied {
		return
	}
	var sum uint64
	for _, x := range h.tenants {
		if x.in || x.doing != nil {
			sum += x.have
		} else {
			sum += min(x.stays, x.have)
		}
	}
	if sum > h.total {
		h.t.Fatalf("at %v: VMs have %d, and there is %d", h.now, sum, h.total)
	}
}

const tick = 2 * time.Millisecond

// run lets time go by.
func (h *host) run(d time.Duration) {
	for end := h.now + d; h.now < end; {
		h.now += tick
		moving := false
		for _, id := range h.order {
			x := h.tenants[id]
			if x == nil {
				continue
			}
			moving = h.live(x) || moving
		}
		if moving {
			h.swapping += tick
		}
		if h.now >= h.s.Deadline() {
			h.s.Tick(h.now)
			h.obey()
		}
	}
}

// live is what one tenant does in a tick. It says whether it moves.
func (h *host) live(x *tenant) (moving bool) {
	if x.doing != nil {
		moving = true
		if h.now >= x.done {
			h.finish(x)
		}
		return moving
	}
	if x.in && x.busy(h.now) && x.have < x.bytes && x.policy.moves() && x.asked == 0 {
		switch step := min(x.bytes-x.have, h.total/8+1); {
		case x.room == 0 || x.have+step <= x.room:
			x.have += step
			h.check()
		default:
			x.asked = x.have + step
			h.s.Want(h.now, x.id, x.asked)
		}
	}
	if x.in && x.asked == 0 && x.busy(h.now) {
		x.resident += tick
	}
	if x.in || !x.busy(h.now) {
		x.lastIn = h.now
	} else {
		x.longest = max(x.longest, h.now-x.lastIn)
	}
	h.s.Report(h.now, x.id, h.holding(x))
	h.obey()
	return false
}

func (h *host) finish(x *tenant) {
	o, obeyed := x.doing, true
	x.doing = nil
	switch {
	case o.Kind == In:
		x.in, x.asked = true, 0
		x.moved += x.have - min(x.stays, x.have)
	case x.fails():
		obeyed = false
	default:
		x.in = false
		x.outs++
		x.moved += x.have - min(x.stays, x.have)
	}
	h.s.Moved(h.now, x.id, obeyed)
	h.obey()
}

// part is how much of the time so far was spent with moving.
func (h *host) part() float64 { return float64(h.swapping) / float64(h.now) }

func swaps(weight int) Policy { return Policy{Weight: weight, Swap: true} }

// seconds is how long each byte takes, if all of a GPU of so much takes d.
func seconds(total uint64, d time.Duration) float64 { return d.Seconds() / float64(total) }

// random makes tenants of any kind, each of which fits.
func random(r *rand.Rand, h *host, n int) []*tenant {
	list := make([]*tenant, n)
	fixed := uint64(0)
	for i := range list {
		x := &tenant{
			bytes:  1 + r.Uint64N(h.total*6/10),
			policy: Policy{Weight: 1 + r.IntN(8), Swap: r.IntN(5) > 0},
			slow:   seconds(h.total, time.Duration(1+r.IntN(300))*time.Millisecond),
		}
		x.stays = x.bytes / uint64(20*n)
		if r.IntN(6) == 0 {
			x.policy.Guarantee = x.bytes
		}
		if !x.policy.moves() {
			x.bytes = min(x.bytes, h.total*2/10-min(fixed, h.total*2/10))
			x.policy.Guarantee = min(x.policy.Guarantee, x.bytes)
			fixed += x.bytes
		}
		if r.IntN(2) == 0 {
			period := time.Duration(1+r.IntN(5000)) * time.Millisecond
			x.busy = func(now Time) bool { return now/period%2 == 0 }
		}
		list[i] = x
	}
	slices.SortStableFunc(list, func(a, b *tenant) int { // who stays takes what there is
		return cmp.Compare(b2i(a.policy.moves()), b2i(b.policy.moves()))
	})
	return list
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func name(seed uint64) string { return fmt.Sprint("seed ", seed) }

// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// tenant is a simulated VM: it keeps depth kernels submitted, or thinks for a while after each.
type tenant struct {
	name   string
	gpus   GPUs
	policy Policy
	kernel time.Duration        // length of a kernel; 0: has never work
	depth  int                  // kernels in flight at most; the gate bounds them too
	think  time.Duration        // from the end of the last kernel to the next
	late   func() time.Duration // how much longer it takes this time; nil: never
	lies   bool                 // never says that its work has ended

	id      ID
	gate    Gate
	readyAt Time
	flight  []time.Duration // what is left of each kernel in flight
	told    Demand
	used    time.Duration // GPU time that it really had
	asked   Time          // since when it has waited for its oldest kernel
	waits   []time.Duration
}

// host simulates GPUs. Kernels of several tenants that run at once share one evenly, as by a
// driver's slices.
type host struct {
	t       *testing.T
	s       *Scheduler
	now     Time
	tenants []*tenant

	deadline Time
	idleFor  time.Duration // GPU 0 was idle although somebody had work

	change   time.Duration // what GPU 0 loses when it goes from one tenant to another
	last     *tenant       // that it worked for
	changing time.Duration // what is left of that
	changes  int

	opened map[ID]Time   // gates
	lasted [maxGPUs]Time // when there was work last that hadn't ended in time
}

const tick = 10 * time.Microsecond

// seeds is how many random hosts a test tries: fewer with -short.
func seeds(short, long uint64) uint64 {
	if testing.Short() {
		return short
	}
	return long
}

func newHost(t *testing.T, c Config, tenants ...*tenant) *host {
	t.Helper()
	h := &host{t: t, s: New(c), opened: map[ID]Time{}}
	for _, x := range tenants {
		h.join(x)
	}
	return h
}

func (h *host) join(x *tenant) {
	h.t.Helper()
	if x.gpus == 0 {
		x.gpus = 1
	}
	id, err := h.s.Join(h.now, x.name, x.gpus, x.policy)
	if err != nil {
		h.t.Fatal(err)
	}
	x.id, x.told, x.flight, x.readyAt = id, Demand{}, nil, h.now
	h.tenants = append(h.tenants, x)
	h.gates()
}

func (h *host) leave(x *tenant) {
	h.s.Leave(h.now, x.id)
	for i, y := range h.tenants {
		if x == y {
			h.tenants = append(h.tenants[:i], h.tenants[i+1:]...)
			break
		}
	}
	h.gates()
}

func (h *host) gates() {
	for changes := h.s.Changes(); len(changes) > 0; changes = h.s.Changes() {
		for _, g := range changes {
			if !g.Open {
				delete(h.opened, g.VM)
			} else if _, was := h.opened[g.VM]; !was {
				h.opened[g.VM] = h.now
			}
			h.numbered(g)
		}
		h.check()
		for _, g := range changes {
			for _, x := range h.tenants {
				if x.id == g.VM {
					x.gate = g
					h.s.Report(h.now, x.id, x.told)
				}
			}
		}
	}
	h.deadline = h.s.Deadline()
}

// numbered checks the number of a turn: it grows by one with each that has begun.
func (h *host) numbered(g Gate) {
	st := h.s.vms[g.VM].stats
	next := g.Turn == st.Turns+1 && (g.Knock || g.Free)
	if g.Turn != st.Turns && !next || g.Overruns != st.Overruns {
		h.t.Fatalf("gate %+v of a VM with %d turns and %d overruns", g, st.Turns, st.Overruns)
	}
}

// submit puts as many kernels on the GPU as the gate and the tenant allow.
func (x *tenant) submit(now Time) {
	if x.kernel == 0 || now < x.readyAt {
		return
	}
	if x.asked == 0 {
		x.asked = now
	}
	for x.gate.Open && len(x.flight) < max(1, x.depth) {
		if len(x.flight) > 0 && time.Duration(len(x.flight))*x.kernel >= x.gate.InFlight {
			return
		}
		x.flight = append(x.flight, x.kernel)
	}
}

func (x *tenant) demand(now Time) Demand {
	d := Demand{InFlight: len(x.flight) > 0 || x.lies && x.told.InFlight}
	d.Waiting = x.kernel > 0 && now >= x.readyAt && len(x.flight) < max(1, x.depth)
	return d
}

// run moves the simulation on.
func (h *host) run(d time.Duration) {
	for end := h.now + d; h.now < end; {
		h.look()
		h.now += tick
		h.compute()
		for _, x := range h.tenants {
			x.submit(h.now)
			if d := x.demand(h.now); d != x.told {
				x.told = d
				h.s.Report(h.now, x.id, d)
				h.gates()
				x.submit(h.now)
			}
		}
		for h.deadline <= h.now {
			h.s.Tick(h.now)
			h.gates()
		}
	}
}

// compute runs what is in flight for a tick.
func (h *host) compute() {
	var sharers [maxGPUs]int
	for _, x := range h.tenants {
		if len(x.flight) > 0 {
			sharers[first(x.gpus)]++
		}
	}
	if h.changed() {
		return
	}
	for _, x := range h.tenants {
		if len(x.flight) == 0 {
			continue
		}
		part := tick / time.Duration(sharers[first(x.gpus)])
		x.used += part
		if x.flight[0] -= part; x.flight[0] > 0 {
			continue
		}
		x.flight = x.flight[1:]
		x.waits = append(x.waits, h.now-x.asked)
		x.asked = 0
		if len(x.flight) == 0 {
			x.readyAt = h.now + x.think
			if x.late != nil {
				x.readyAt += x.late()
			}
		}
	}
	wanted := false
	for _, x := range h.tenants {
		wanted = wanted || x.told.Waiting && x.policy.Limit == 0
	}
	if wanted && sharers[0] == 0 {
		h.idleFor += tick
	}
}

// changed says whether GPU 0 is busy with going from one tenant to another.
func (h *host) changed() bool {
	for _, x := range h.tenants {
		if h.change == 0 || len(x.flight) == 0 || x == h.last {
			continue
		}
		h.last, h.changing = x, h.change
		h.changes++
	}
	h.changing = max(0, h.changing-tick)
	return h.changing > 0
}

func first(g GPUs) int {
	for n := range maxGPUs {
		if g>>n&1 != 0 {
			return n
		}
	}
	return 0
}

// check holds what must be true at every moment: VMs have turns at the same time only where there
// is work that lasts, and begin beside work that ends only where there was some then.
func (h *host) check() {
	h.look()
	var held GPUs
	for _, v := range h.s.all {
		if !v.phase.open() {
			continue
		}
		if held&v.gpus&^h.lasting(h.now) != 0 {
			h.t.Fatalf("at %v: two VMs have a turn on one GPU", h.now)
		}
		held |= v.gpus
		for _, o := range h.s.all {
			began := h.opened[v.id]
			shared := o.gpus & v.gpus &^ h.lasting(began-tick)
			if o.phase == draining && shared != 0 && began > o.since && v.policy.Class == Batch {
				h.t.Fatalf("at %v: %s has a turn beside work of %s", h.now, v.name, o.name)
			}
		}
	}
}

// look notes on which GPUs there is work that lasts.
func (h *host) look() {
	for _, v := range h.s.all {
		for n := range maxGPUs {
			if v.lasts() && v.gpus>>n&1 != 0 {
				h.lasted[n] = h.now
			}
		}
	}
}

// lasting are the GPUs with work that lasts, or had it since then.
func (h *host) lasting(since Time) (gpus GPUs) {
	for n, at := range h.lasted {
		if at > 0 && at >= since {
			gpus |= 1 << n
		}
	}
	return gpus
}

// shares are the tenants' parts of the GPU time that all of them had.
func shares(tenants ...*tenant) []float64 {
	var sum time.Duration
	for _, x := range tenants {
		sum += x.used
	}
	s := make([]float64, len(tenants))
	for i, x := range tenants {
		s[i] = float64(x.used) / float64(sum)
	}
	return s
}

// wantShares compares shares with those by weight.
func wantShares(t *testing.T, within float64, tenants ...*tenant) {
	t.Helper()
	sum := 0
	for _, x := range tenants {
		sum += x.policy.withDefaults().Weight
	}
	for i, s := range shares(tenants...) {
		want := float64(tenants[i].policy.withDefaults().Weight) / float64(sum)
		if math.Abs(s-want) > within {
			t.Errorf("%s had %.3f of the GPU, want %.3f", tenants[i].name, s, want)
		}
	}
}

// hog is a tenant that always has work.
func hog(name string, kernel time.Duration, p Policy) *tenant {
	return &tenant{name: name, kernel: kernel, depth: 16, policy: p}
}

// randomTenants makes tenants of any kind.
func randomTenants(r *rand.Rand, n int) []*tenant {
	list := make([]*tenant, n)
	for i := range list {
		list[i] = &tenant{
			name: fmt.Sprint("vm", i), depth: 1 + r.IntN(16), gpus: GPUs(1 + r.IntN(3)),
			kernel: time.Duration(1+r.IntN(3000)) * time.Microsecond,
			think:  time.Duration(r.IntN(3)*r.IntN(5000)) * time.Microsecond,
			policy: Policy{
				Weight: 1 + r.IntN(1000), Class: Class(r.IntN(2)),
				Limit: []int{0, 0, 0, 20}[r.IntN(4)],
				Turn:  MinTurn + time.Duration(r.IntN(10))*time.Millisecond,
			},
		}
	}
	return list
}

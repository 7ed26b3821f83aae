// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// endless is a tenant with a kernel that doesn't end, and more behind it.
func endless(p Policy) *tenant {
	return &tenant{name: "endless", kernel: time.Hour, depth: 2, policy: p}
}

// TestVictimsBesideEndlessWork have their turns at the same time: each has as much as it would have
// beside VMs that behave.
func TestVictimsBesideEndlessWork(t *testing.T) {
	for _, kernel := range []time.Duration{100 * us, ms, 8 * ms} {
		for n := 1; n <= 8; n++ {
			if testing.Short() && n != 1 && n != 3 && n != 8 {
				continue
			}
			t.Run(fmt.Sprint(n, " of ", kernel), func(t *testing.T) {
				h := newHost(t, Config{}, endless(Policy{}))
				var victims []*tenant
				for i := range n {
					victims = append(victims, hog(fmt.Sprint("victim", i), kernel, Policy{}))
					h.join(victims[i])
				}
				h.run(time.Second)
				for range 4 {
					wantEach(t, h, 0.95/float64(n+1), victims...)
				}
			})
		}
	}
}

// wantEach runs for a second, in which each of some tenants must have at least this part of the
// GPU.
func wantEach(t *testing.T, h *host, part float64, tenants ...*tenant) {
	t.Helper()
	for _, x := range tenants {
		x.used = 0
	}
	h.run(time.Second)
	for _, x := range tenants {
		if got := x.used.Seconds(); got < part {
			t.Errorf("%s had %.3f of the GPU, want %.3f", x.name, got, part)
		}
	}
}

// TestWeightsBesideEndlessWork hold among the victims. For the endless work they hold only as far
// as the driver lets them: it has at least as much as any VM beside it.
func TestWeightsBesideEndlessWork(t *testing.T) {
	for _, test := range []struct {
		endless, a, b int
		want          [3]float64
	}{
		{100, 100, 100, [3]float64{1. / 3, 1. / 3, 1. / 3}},
		{100, 100, 300, [3]float64{3. / 7, 1. / 7, 3. / 7}}, // as much as b, which has the most
		{1, 100, 100, [3]float64{1. / 3, 1. / 3, 1. / 3}},   // it can't have less
		{150, 100, 100, [3]float64{3. / 7, 2. / 7, 2. / 7}},
		{200, 100, 100, [3]float64{2. / 4, 1. / 4, 1. / 4}},
		{900, 100, 100, [3]float64{9. / 11, 1. / 11, 1. / 11}}, // turns of its own
	} {
		t.Run(fmt.Sprint(test.endless, test.a, test.b), func(t *testing.T) {
			list := []*tenant{
				endless(Policy{Weight: test.endless}), hog("a", ms, Policy{Weight: test.a}),
				hog("b", ms, Policy{Weight: test.b}),
			}
			h := newHost(t, Config{}, list...)
			h.run(time.Second)
			for _, x := range list {
				x.used = 0
			}
			h.run(10 * time.Second)
			for i, s := range shares(list...) {
				if s < test.want[i]-0.02 || s > test.want[i]+0.02 {
					t.Errorf("%s had %.3f, want %.3f", list[i].name, s, test.want[i])
				}
			}
		})
	}
}

// TestTurnsAreAloneAgain as soon as the work that lasted has ended.
func TestTurnsAreAloneAgain(t *testing.T) {
	x, a, b := endless(Policy{}), hog("a", ms, Policy{}), hog("b", ms, Policy{})
	h := newHost(t, Config{}, x, a, b)
	h.run(time.Second)
	if !a.gate.Open || !b.gate.Open {
		t.Fatalf("gates %+v, %+v: want both open", a.gate, b.gate)
	}
	h.leave(x)
	if a.gate.Open == b.gate.Open {
		t.Fatalf("gates %+v, %+v: want one open", a.gate, b.gate)
	}
	h.run(100 * ms)
	a.used, b.used, h.idleFor = 0, 0, 0
	h.run(2 * time.Second)
	wantShares(t, 0.01, a, b)
	if h.idleFor > 20*ms {
		t.Errorf("the GPU was idle for %v", h.idleFor)
	}
}

// TestRestsBesideEndlessWork: victims that wait for their kernels have a share each, too, and their
// gates open at most 100 times a second.
func TestRestsBesideEndlessWork(t *testing.T) {
	list := guests(3, Policy{})
	h := newHost(t, Config{}, append([]*tenant{endless(Policy{})}, list...)...)
	h.run(time.Second)
	before := make([]uint64, len(list))
	for i, x := range list {
		st, _ := h.s.Stats(h.now, x.id)
		before[i] = st.Turns
	}
	wantEach(t, h, 0.9/4, list...)
	for i, x := range list {
		if st, _ := h.s.Stats(h.now, x.id); st.Turns-before[i] > 100 {
			t.Errorf("%s had %d turns in a second", x.name, st.Turns-before[i])
		}
	}
}

// TestLatencyBesideEndlessWork has the others' gates closed, as without that work.
func TestLatencyBesideEndlessWork(t *testing.T) {
	light := &tenant{
		name: "light", kernel: 50 * us, depth: 1, think: 2 * ms, policy: Policy{Class: Latency},
	}
	a, b := hog("a", ms, Policy{}), hog("b", ms, Policy{})
	h := newHost(t, Config{}, endless(Policy{}), light, a, b)
	h.run(time.Second)
	light.waits = nil
	for range 100000 {
		h.run(tick)
		if l := h.s.vms[light.id]; l.phase == running && h.s.urgent(l) &&
			(a.gate.Open || b.gate.Open) {
			t.Fatal("others have their turn with it")
		}
	}
	if len(light.waits) < 250 {
		t.Errorf("it ran %d kernels in a second", len(light.waits))
	}
}

// TestSomebodyGoesOnBesideEndlessWork: with VMs of all kinds, somebody has a turn whenever somebody
// has work, and nobody starves.
func TestSomebodyGoesOnBesideEndlessWork(t *testing.T) {
	for seed := range seeds(5, 20) {
		r := rand.New(rand.NewPCG(seed, 3))
		list := randomTenants(r, 2+r.IntN(8))
		h := newHost(t, Config{}, list...)
		for g := range 1 + r.IntN(2) {
			x := endless(Policy{Weight: 1 + r.IntN(1000)})
			x.name += fmt.Sprint(g)
			x.gpus, x.depth = 1<<g, 1+r.IntN(3)
			h.join(x)
		}
		h.run(time.Second)
		for _, x := range list {
			x.waits = nil
		}
		var held time.Duration
		for range 400000 {
			h.run(tick)
			held += h.heldBack()
		}
		if held > 4*ms {
			t.Errorf("seed %d: nobody had a turn for %v of 4 s although somebody had work", seed,
				held)
		}
		for _, x := range list { // those of two GPUs may have to wait for the slower one's clock
			if len(x.waits) == 0 && x.gpus != 3 {
				t.Errorf("seed %d: %s (%+v) never ran a kernel", seed, x.name, x.policy)
			}
		}
	}
}

// heldBack is a tick if GPU 0 has work that lasts, and somebody may have a turn beside it, but
// nobody has one; else 0.
func (h *host) heldBack() time.Duration {
	lasts, waits := false, false
	for _, v := range h.s.all {
		if v.gpus&1 == 0 {
			continue
		}
		if v.phase.holds() || v.phase == parked || v.gpus == 3 && v.asks() {
			return 0 // there is a turn, or GPU 0 may have to wait for the other GPU
		}
		lasts = lasts || v.phase == overrun
		waits = waits || v.phase == waiting && v.asks()
	}
	if lasts && waits {
		return tick
	}
	return 0
}

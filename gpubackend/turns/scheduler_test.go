// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

func TestSharesFollowWeights(t *testing.T) {
	for _, test := range []struct {
		name    string
		tenants []*tenant
	}{
		{"equal", []*tenant{hog("a", 200*us, Policy{}), hog("b", 200*us, Policy{})}},
		{"1:2:4:8", []*tenant{
			hog("a", 200*us, Policy{Weight: 1}), hog("b", 5*ms, Policy{Weight: 2}),
			hog("c", 50*us, Policy{Weight: 4}), hog("d", ms, Policy{Weight: 8}),
		}},
		{"long kernels", []*tenant{hog("a", 30*ms, Policy{}), hog("b", 100*us, Policy{})}},
		{"extreme", []*tenant{
			hog("a", ms, Policy{Weight: 1}), hog("b", ms, Policy{Weight: 99}),
		}},
		{"turns", []*tenant{
			hog("a", ms, Policy{Turn: ms}), hog("b", ms, Policy{Turn: 20 * ms}),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t, Config{}, test.tenants...)
			h.run(12 * time.Second)
			wantShares(t, 0.02, test.tenants...)
		})
	}
}

func TestWaitedForKernelsKeepTheGPUBusy(t *testing.T) {
	var list []*tenant
	for i := range 4 {
		list = append(list, &tenant{name: fmt.Sprint(i), kernel: 200 * us, depth: 1, think: tick})
	}
	h := newHost(t, Config{}, list...)
	h.run(5 * time.Second)
	wantShares(t, 0.01, list...)
	var used time.Duration
	for _, x := range list {
		used += x.used
	}
	if u := used.Seconds() / 5; u < 0.92 {
		t.Errorf("used %.3f of the GPU, want 0.92", u)
	}
}

func TestNoGPUIsHeldBack(t *testing.T) {
	a := hog("a", 200*us, Policy{Weight: 1})
	b := &tenant{name: "b", kernel: 100 * us, depth: 1, think: 3 * ms}
	b.policy.Weight = 1000
	h := newHost(t, Config{}, a, b)
	h.run(5 * time.Second)
	if idle := h.idleFor.Seconds() / 5; idle > 0.02 {
		t.Errorf("the GPU was idle for %.3f of the time while somebody had work", idle)
	}
	if a.used < 4500*ms {
		t.Errorf("the VM that always had work was given %v of 5 s", a.used)
	}
}

func TestLimitHolds(t *testing.T) {
	for _, beside := range []*tenant{{name: "idle"}, hog("busy", ms, Policy{})} {
		t.Run(beside.name, func(t *testing.T) {
			a := hog("a", ms, Policy{Limit: 30})
			h := newHost(t, Config{}, a, beside)
			h.run(20 * time.Second)
			if s := a.used.Seconds() / 20; s < 0.29 || s > 0.31 {
				t.Errorf("had %.3f of the GPU, want 0.30", s)
			}
		})
	}
}

func TestLatencyOvertakes(t *testing.T) {
	light := &tenant{
		name: "light", kernel: 50 * us, depth: 1, think: 2 * ms, policy: Policy{Class: Latency},
	}
	h := newHost(t, Config{}, light, hog("hog", ms, Policy{}))
	h.run(5 * time.Second)
	slices.Sort(light.waits)
	if p99 := light.waits[len(light.waits)*99/100]; p99 > 1300*us {
		t.Errorf("p99 of its waits is %v, want 1.3 ms", p99)
	}
}

func TestLatencyIsNoWayAroundShares(t *testing.T) {
	a, b := hog("a", 500*us, Policy{Class: Latency}), hog("b", 500*us, Policy{})
	newHost(t, Config{}, a, b).run(10 * time.Second)
	wantShares(t, 0.02, a, b)
}

func TestSleepingSavesNothing(t *testing.T) {
	a, b := hog("a", ms, Policy{}), hog("b", ms, Policy{})
	h := newHost(t, Config{}, a)
	h.run(10 * time.Second)
	h.join(b) // the other has had all for long: that is no debt
	a.used = 0
	h.run(2 * time.Second)
	wantShares(t, 0.02, a, b)
}

func TestEndlessKernelLosesTheGPU(t *testing.T) {
	endless := hog("endless", time.Hour, Policy{})
	a, b := hog("a", ms, Policy{}), hog("b", ms, Policy{Weight: 300})
	h := newHost(t, Config{}, endless, a, b)
	h.run(time.Second)
	a.used, b.used = 0, 0
	h.run(5 * time.Second)
	wantShares(t, 0.03, a, b)
	if sum := (a.used + b.used).Seconds() / 5; sum < 0.45 {
		t.Errorf("the others had %.3f of the GPU, want the driver's half", sum)
	}
	if st, _ := h.s.Stats(h.now, endless.id); st.Overruns != 1 || st.Debt < time.Second {
		t.Errorf("stats %+v: want an overrun and its debt", st)
	}
}

func TestVMThatNeverEndsItsTurn(t *testing.T) {
	liar := &tenant{name: "liar", kernel: 100 * us, depth: 1, think: ms, lies: true}
	a := hog("a", ms, Policy{})
	h := newHost(t, Config{}, liar, a)
	h.run(5 * time.Second)
	if s := a.used.Seconds() / 5; s < 0.5 {
		t.Errorf("the other had %.3f of the GPU", s)
	}
}

func TestLeavingDoesNotPayDebts(t *testing.T) {
	rogue, a := hog("rogue", 100*ms, Policy{}), hog("a", ms, Policy{})
	h := newHost(t, Config{}, rogue, a)
	for range 300 { // it vanishes after each kernel
		h.run(110 * ms)
		if rogue.used > 0 && len(rogue.flight) == 0 {
			h.leave(rogue)
			h.run(tick)
			h.join(rogue)
		}
	}
	if s := shares(rogue, a); s[0] > 0.55 {
		t.Errorf("a VM that comes and goes had %.3f of the GPU", s[0])
	}
}

func TestVMOfTwoGPUs(t *testing.T) {
	both := &tenant{name: "both", gpus: 3, kernel: ms, depth: 4}
	zero, one := hog("zero", ms, Policy{}), hog("one", ms, Policy{})
	one.gpus = 2
	h := newHost(t, Config{}, both, zero, one)
	h.run(10 * time.Second)
	for _, x := range h.tenants {
		if s := x.used.Seconds() / 10; s < 0.4 || s > 0.6 {
			t.Errorf("%s had %.3f of its GPUs, want half", x.name, s)
		}
	}
}

// TestNobodyStarves lets VMs of all kinds come and go.
func TestNobodyStarves(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		list := randomTenants(r, 2+r.IntN(12))
		h := newHost(t, Config{}, list...)
		for range 10 {
			h.run(200 * ms)
			if x := list[r.IntN(len(list))]; len(x.flight) == 0 {
				h.leave(x)
				h.run(time.Duration(r.IntN(20)) * ms)
				h.join(x)
			}
		}
		h.run(4 * time.Second)
		for _, x := range list {
			if len(x.waits) == 0 {
				t.Errorf("seed %d: %s (%+v) never ran a kernel", seed, x.name, x.policy)
			}
		}
	}
}

func TestThousandsOfVMs(t *testing.T) {
	s := New(Config{})
	var ids []ID
	for i := range 2000 {
		id, err := s.Join(Time(i), fmt.Sprint(i), 1, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		s.Report(Time(i), id, Demand{Waiting: true})
	}
	// The one whose turn it is works until its gate closes.
	now, open := Time(2000), ID(0)
	for range 3 * len(ids) {
		for _, g := range s.Changes() {
			if g.Open {
				open = g.VM
			}
		}
		s.Report(now, open, Demand{Waiting: true, InFlight: true})
		now = max(now+1, s.Deadline())
		s.Tick(now)
		s.Report(now, open, Demand{Waiting: true})
	}
	for _, id := range ids {
		if st, _ := s.Stats(now, id); st.Turns < 2 || st.Turns > 4 {
			t.Fatalf("VM %d had %d turns, want 3", id, st.Turns)
		}
	}
	for _, id := range ids {
		s.Leave(now, id)
	}
	if len(s.vms)+len(s.all)+len(s.names) != 0 || len(s.left) > maxDebts {
		t.Errorf("after all have left: %d VMs, %d names, %d debts", len(s.vms), len(s.names),
			len(s.left))
	}
}

func TestAloneHasNoGate(t *testing.T) {
	s := New(Config{})
	a, _ := s.Join(0, "a", 1, Policy{})
	if g := s.Changes(); len(g) != 1 || !g[0].Open || !g[0].Free {
		t.Fatalf("gates %+v: want a free one", g)
	}
	b, _ := s.Join(1, "b", 1, Policy{})
	for _, g := range s.Changes() {
		if g.Free || g.Open != (g.VM == a) {
			t.Errorf("gate %+v: want none free, and the first VM's open", g)
		}
	}
	s.Leave(2, b)
	if g := s.Changes(); len(g) != 1 || !g[0].Free {
		t.Errorf("gates %+v: want a free one again", g)
	}
}

func TestIdleTurnPassesOn(t *testing.T) {
	s := New(Config{})
	a, _ := s.Join(0, "a", 1, Policy{})
	b, _ := s.Join(0, "b", 1, Policy{})
	s.Report(0, a, Demand{Waiting: true})
	s.Report(10, b, Demand{Waiting: true})
	s.Report(20, a, Demand{})
	if d := s.Deadline(); d != 20+40*us {
		t.Fatalf("deadline %v, want 40 µs after the VM became idle", d)
	}
	s.Changes()
	s.Tick(s.Deadline())
	if g := s.Changes(); len(g) != 1 || g[0].Open {
		t.Fatalf("gates %+v: want one closed", g)
	}
	s.Report(100*us, a, Demand{})
	open := map[ID]bool{}
	for _, g := range s.Changes() {
		open[g.VM] = g.Open
	}
	if _, changed := open[a]; changed || !open[b] {
		t.Errorf("gates %v: want the second VM's open", open)
	}
}

// TestNextIsToldBefore: while work of a turn that is over ends, the VM that comes next is told so,
// for as long as that is likely to last; and only that one.
func TestNextIsToldBefore(t *testing.T) {
	s := New(Config{})
	a, _ := s.Join(0, "a", 1, Policy{})
	b, _ := s.Join(0, "b", 1, Policy{})
	c, _ := s.Join(0, "c", 1, Policy{})
	s.Report(0, a, Demand{Waiting: true})
	s.Report(10, b, Demand{Waiting: true})
	s.Report(10, c, Demand{Waiting: true})
	soon := func() (ids []ID) {
		for _, g := range s.Changes() {
			if g.Soon {
				ids = append(ids, g.VM)
			}
		}
		return ids
	}
	if ids := soon(); ids != nil {
		t.Fatalf("%v are told while a turn goes on", ids)
	}
	s.Tick(DefaultTurn)
	if ids := soon(); ids != nil {
		t.Fatalf("%v are told before it is known whether there is work to end", ids)
	}
	s.Report(DefaultTurn, a, Demand{InFlight: true})
	if ids := soon(); !slices.Equal(ids, []ID{b}) {
		t.Fatalf("%v are told, want %v", ids, b)
	}
	if d := s.Deadline(); d != DefaultTurn+soonFor {
		t.Errorf("deadline %v, want %v after the turn's end", d, soonFor)
	}
	s.Tick(DefaultTurn + soonFor)
	for _, g := range s.Changes() {
		if g.VM != b || g.Soon || g.Open {
			t.Errorf("gate %+v: want the next one to go to sleep again", g)
		}
	}
	s.Report(2*DefaultTurn, a, Demand{})
	for _, g := range s.Changes() {
		if g.VM != b || g.Soon || !g.Open {
			t.Errorf("gate %+v: want the next one open", g)
		}
	}
}

// TestLatencyBesideWorkThatEnds: a VM of the latency class begins as soon as the gate of another is
// closed; one of the batch class when the other's work has ended.
func TestLatencyBesideWorkThatEnds(t *testing.T) {
	for _, class := range []Class{Latency, Batch} {
		s := New(Config{})
		a, _ := s.Join(0, "a", 1, Policy{})
		b, _ := s.Join(0, "b", 1, Policy{Class: class})
		c, _ := s.Join(0, "c", 1, Policy{Class: class})
		s.Report(0, a, Demand{InFlight: true})
		s.Changes()
		s.Report(ms, b, Demand{Waiting: true})
		s.Report(ms, c, Demand{Waiting: true})
		s.Tick(DefaultTurn)
		s.Report(DefaultTurn, a, Demand{InFlight: true})
		open := map[ID]bool{}
		for _, g := range s.Changes() {
			open[g.VM] = g.Open
		}
		want := class == Latency
		if open[a] || open[b] != want || open[c] {
			t.Errorf("class %v: gates %v, want the second's open: %v", class, open, want)
		}
	}
}

// TestTurnGoesOn: a VM whose turn was ended for another's sake has it again when that has done: its
// own work need not end first.
func TestTurnGoesOn(t *testing.T) {
	s := New(Config{})
	a, _ := s.Join(0, "a", 1, Policy{})
	b, _ := s.Join(0, "b", 1, Policy{Class: Latency})
	s.Report(0, a, Demand{InFlight: true})
	s.Report(ms, b, Demand{Waiting: true})
	s.Changes()
	s.Report(ms, a, Demand{InFlight: true, Waiting: true})
	s.Report(ms, b, Demand{InFlight: true})
	for _, g := range s.Changes() {
		if g.Open != (g.VM == b) {
			t.Errorf("gate %+v, want the second's open", g)
		}
	}
	s.Report(2*ms, b, Demand{})
	s.Tick(s.Deadline())
	s.Report(s.now, b, Demand{})
	open := map[ID]bool{}
	for _, g := range s.Changes() {
		open[g.VM] = g.Open
	}
	if !open[a] {
		t.Errorf("gates %v, want the first's open again", open)
	}
}

// TestWorkThatWaitsForMoreWork: what doesn't end may wait for what is behind the gate. So its VM
// gets turns, and the others don't wait for its end each time.
func TestWorkThatWaitsForMoreWork(t *testing.T) {
	a, b := hog("a", ms, Policy{}), hog("b", ms, Policy{})
	h := newHost(t, Config{}, a)
	h.run(ms)
	a.flight = []time.Duration{time.Hour}
	h.join(b)
	opened, last := 0, a.gate.Open
	for range 20000 {
		if h.run(tick); a.gate.Open && !last {
			opened++
		}
		last = a.gate.Open
	}
	if opened < 5 {
		t.Errorf("the gate of work that waits opened %d times", opened)
	}
	if b.used < 80*ms {
		t.Errorf("the other VM had %v in 200ms", b.used)
	}
}

// TestParkedVMsKnock: the gate of a VM that nobody keeps from the GPU is open, and its workers say
// when they begin.
func TestParkedVMsKnock(t *testing.T) {
	s := New(Config{})
	a, _ := s.Join(0, "a", 1, Policy{})
	b, _ := s.Join(0, "b", 1, Policy{})
	gates := func() map[ID]Gate {
		m := map[ID]Gate{}
		for _, g := range s.Changes() {
			m[g.VM] = g
		}
		return m
	}
	if g := gates(); !g[a].Open || !g[a].Knock || g[b].Open {
		t.Errorf("gates %+v, want the first parked", g)
	}
	s.Report(10, a, Demand{InFlight: true})
	if g := gates(); !g[a].Open || g[a].Knock {
		t.Errorf("gates %+v, want the first running", g)
	}
	s.Report(20, a, Demand{})
	s.Tick(s.Deadline())
	if g := gates(); !g[a].Open || !g[a].Knock {
		t.Errorf("gates %+v, want the first parked again", g)
	}
}

func TestBadInput(t *testing.T) {
	s := New(Config{})
	for _, p := range []Policy{
		{Weight: -1}, {Weight: MaxWeight + 1}, {Limit: -5}, {Limit: 101}, {Class: 7},
		{Turn: 1}, {Turn: time.Hour},
	} {
		if _, err := s.Join(0, "x", 1, p); err == nil {
			t.Errorf("a policy of %+v was taken", p)
		}
	}
	if _, err := s.Join(0, "x", 0, Policy{}); !errors.Is(err, ErrGPUs) {
		t.Errorf("no GPUs: error %v", err)
	}
	id, err := s.Join(0, "x", 1, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Join(0, "x", 1, Policy{}); !errors.Is(err, ErrName) {
		t.Errorf("the same name: error %v", err)
	}
	if err := s.Set(0, id, Policy{Weight: -1}); err == nil {
		t.Error("a weight of -1 was set")
	}
	if err := s.Set(0, id+1, Policy{}); err == nil {
		t.Error("the policy of a VM that isn't there was set")
	}
	s.Report(0, id+1, Demand{Waiting: true})
	s.Leave(0, id+1)
	s.Report(-5, id, Demand{Waiting: true}) // a clock that goes back
	if _, ok := s.Stats(0, id+1); ok {
		t.Error("a VM that isn't there has figures")
	}
}

func TestWeightChangesWhileItRuns(t *testing.T) {
	a, b := hog("a", ms, Policy{}), hog("b", ms, Policy{})
	h := newHost(t, Config{}, a, b)
	h.run(2 * time.Second)
	a.used, b.used, a.policy.Weight = 0, 0, 3*DefaultWeight
	if err := h.s.Set(h.now, a.id, a.policy); err != nil {
		t.Fatal(err)
	}
	h.run(4 * time.Second)
	wantShares(t, 0.02, a, b)
}

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
	if endless.gate.Overruns != 1 || a.gate.Overruns+b.gate.Overruns != 0 {
		t.Errorf("told %d, %d and %d overruns", endless.gate.Overruns, a.gate.Overruns,
			b.gate.Overruns)
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
		id, err := s.Join(Time(i), fmt.Sprint(i), 1, Policy{Turn: DefaultTurn})
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

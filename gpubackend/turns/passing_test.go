// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"slices"
	"testing"
	"time"
)

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
	a, _ := s.Join(0, "a", 1, Policy{Turn: DefaultTurn})
	b, _ := s.Join(0, "b", 1, Policy{Turn: DefaultTurn})
	c, _ := s.Join(0, "c", 1, Policy{Turn: DefaultTurn})
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

// TestTurnGoesOn: a VM whose turn was ended for another VM has it again when that VM is done. Its
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

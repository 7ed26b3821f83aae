// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/gate"
)

func TestFreeGateCountsNothing(t *testing.T) {
	r := newRig(t, gate.Unshared)
	for range 100 {
		if r.launch(1, 7, ms) != Pass || r.Gated() {
			t.Fatal("a free gate holds something back")
		}
	}
	if r.gpu.records != 0 || r.InFlight() {
		t.Errorf("%d fences at a free gate", r.gpu.records)
	}
	if n := testing.AllocsPerRun(100, func() { r.Begin(); r.Submitted(); r.Executed() }); n != 0 {
		t.Errorf("%v allocations for each batch", n)
	}
}

// TestFreeGateCostsOneRead: launches that are waited for, one after the other, have a worker look
// at the gate's word for each batch, and nothing else: neither clock nor driver, nor is anything
// written to the page or the bell rung.
func TestFreeGateCostsOneRead(t *testing.T) {
	r := newRig(t, gate.Unshared)
	door := NewDoor(r.Admission, nil)
	for range 100 {
		if door.Begin() || door.Ripe() || door.Stopped() {
			t.Fatal("a free gate holds something back")
		}
		door.Executed()
		for i := range 5 { // turns of the loop while the call waits
			now := r.gpu.now.Add(time.Duration(i) * 5 * time.Microsecond)
			door.Watch(Pause{Now: now, Since: r.gpu.now, Idle: now.Sub(r.gpu.now), Spin: ms,
				Waits: true})
		}
		r.gpu.now = r.gpu.now.Add(30 * time.Microsecond)
	}
	waiting, inFlight := r.page.Demand()
	if r.looked != 1 || r.asked != 0 || r.gpu.records != 0 || waiting || inFlight || r.rang() {
		t.Errorf("the clock is read %d times, the driver asked %d times, %d fences; waiting %v, "+
			"in flight %v", r.looked, r.asked, r.gpu.records, waiting, inFlight)
	}
	if r.time < 99*30*time.Microsecond || r.time > 100*30*time.Microsecond {
		t.Errorf("%v of GPU time", r.time)
	}
}

// TestClosedGateStopsTheRing, which goes on when it opens; the arbiter learns both.
func TestClosedGateStopsTheRing(t *testing.T) {
	r := newRig(t, gate.State{Attend: true, InFlight: 2 * ms})
	for range 100 {
		if r.launch(1, 7, ms) != Closed || r.Stopped() != Closed {
			t.Fatal("a closed gate lets work through")
		}
	}
	if waiting, inFlight := r.page.Demand(); !waiting || inFlight || !r.rang() {
		t.Errorf("waiting %v, in flight %v", waiting, inFlight)
	}
	r.launch(1, 7, ms)
	if r.rang() {
		t.Error("the bell rings for each look at a closed gate")
	}
	r.page.Set(open)
	if r.launch(1, 7, ms) != Pass || !r.InFlight() {
		t.Fatal("an open gate holds work back")
	}
	r.pass(ms / 2)
	if _, inFlight := r.page.Demand(); !inFlight || r.rang() {
		t.Errorf("in flight %v before the work has ended", inFlight)
	}
	r.pass(ms)
	if waiting, inFlight := r.page.Demand(); waiting || inFlight || !r.rang() {
		t.Errorf("waiting %v, in flight %v after the work has ended", waiting, inFlight)
	}
	if r.time < ms-50*time.Microsecond || r.time > ms+50*time.Microsecond {
		t.Errorf("%v of GPU time, want %v", r.time, ms)
	}
}

// TestWorkThatCameThroughDrains: a gate that closes keeps work in flight until that has ended, and
// commands that wait remain announced.
func TestWorkThatCameThroughDrains(t *testing.T) {
	r := newRig(t, open)
	r.launch(1, 7, 3*ms)
	r.page.Set(gate.State{Attend: true, InFlight: 2 * ms})
	if r.launch(1, 7, ms) != Closed {
		t.Fatal("a closed gate lets more through")
	}
	r.rang()
	r.pass(2 * ms)
	if waiting, inFlight := r.page.Demand(); !waiting || !inFlight {
		t.Errorf("waiting %v, in flight %v", waiting, inFlight)
	}
	r.pass(2 * ms)
	if waiting, inFlight := r.page.Demand(); !waiting || inFlight || !r.rang() {
		t.Errorf("after the drain: waiting %v, in flight %v", waiting, inFlight)
	}
}

// TestWorkFromBefore: what came through while the gate was free is in flight when it isn't any
// more.
func TestWorkFromBefore(t *testing.T) {
	r := newRig(t, gate.Unshared)
	r.launch(1, 7, 3*ms)
	r.page.Set(gate.State{Attend: true, InFlight: 2 * ms})
	if r.Begin(); !r.InFlight() {
		t.Fatal("work from before isn't in flight")
	}
	r.pass(4 * ms)
	if _, inFlight := r.page.Demand(); inFlight || r.Unfinished() {
		t.Error("work that has ended is in flight")
	}
}

// TestCapture: fences would get into the graph.
func TestCapture(t *testing.T) {
	r := newRig(t, open)
	r.capturing = true
	for range 100 {
		if r.launch(1, 7, 0) != Pass {
			t.Fatal("a capture is held back")
		}
	}
	if r.gpu.records != 0 {
		t.Errorf("%d fences during a capture", r.gpu.records)
	}
}

// TestGateBecomesFree: fences that nobody asks for are given back.
func TestGateBecomesFree(t *testing.T) {
	r := newRig(t, open)
	for range 50 {
		r.page.Set(open)
		r.flood(1, 7, 5*ms)
		r.page.Set(gate.Unshared)
		for range 10 {
			if r.launch(1, 7, ms) != Pass {
				t.Fatal("a free gate holds something back")
			}
		}
		r.pass(time.Second)
	}
	if r.InFlight() || r.flying != 0 || len(r.gpu.events) > 2*maxUnits {
		t.Errorf("%d stretches, %d events", r.flying, len(r.gpu.events))
	}
}

// TestCopiesStopToo, and stand in the arbiter's list although the ring is empty.
func TestCopiesStopToo(t *testing.T) {
	r := newRig(t, gate.State{Attend: true})
	r.Begin()
	if r.May() {
		t.Fatal("a copy goes on at a closed gate")
	}
	r.Look(r.gpu.now, r.gpu.now)
	if waiting, _ := r.page.Demand(); !waiting {
		t.Error("nobody waits")
	}
	r.page.Set(open)
	r.Begin()
	if !r.May() || !r.InFlight() {
		t.Error("a copy doesn't go on at an open gate, or isn't in flight")
	}
	r.page.Set(gate.Unshared)
	if !r.May() {
		t.Error("a copy doesn't go on at a free gate")
	}
}

func TestStandstill(t *testing.T) {
	r := newRig(t, open)
	r.flood(1, 7, ms)
	r.Standstill()
	waiting, inFlight := r.page.Demand()
	if waiting || inFlight || r.Unfinished() || r.flying != 0 {
		t.Errorf("waiting %v, in flight %v, %d stretches", waiting, inFlight, r.flying)
	}
}

// TestAnnouncements are work: they need an open gate, and work that they are the end of.
func TestAnnouncements(t *testing.T) {
	r := newRig(t, gate.Unshared)
	if !r.MayAnnounce() {
		t.Error("not at a free gate")
	}
	r.page.Set(open)
	if r.MayAnnounce() {
		t.Error("an announcement of nothing")
	}
	if r.launch(1, 7, ms); !r.MayAnnounce() {
		t.Error("not of work in flight")
	}
	r.page.Set(gate.State{})
	if r.MayAnnounce() {
		t.Error("at a closed gate")
	}
}

func TestGPUTimeAtAFreeGate(t *testing.T) {
	r := newRig(t, gate.Unshared)
	for range 10 {
		r.launch(1, 7, ms)
		r.pass(5 * ms)
	}
	if r.time < 9*ms || r.time > 11*ms {
		t.Errorf("%v of GPU time, want %v", r.time, 10*ms)
	}
}

func TestGatedLaunchesDoNotAllocate(t *testing.T) {
	r := newRig(t, open)
	for range 100 {
		r.flood(1, 7, 100*time.Microsecond)
		r.pass(ms)
	}
	if n := testing.AllocsPerRun(100, func() {
		r.flood(1, 7, 100*time.Microsecond)
		r.pass(ms)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFreeBatch(b *testing.B) {
	r := newRig(b, gate.Unshared)
	for b.Loop() {
		r.Begin()
		r.Submitted()
		r.Executed()
	}
}

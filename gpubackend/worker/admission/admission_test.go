// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
)

// gpu is a device with a clock of its own: each stream does its work in order, all of them at once.
type gpu struct {
	now     time.Time
	ends    map[gpubackend.Stream]time.Time // of the work in a stream
	events  []time.Time                     // when the event of that number passes
	records int
}

func (g *gpu) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	g.events = append(g.events, time.Time{})
	return gpubackend.Event(len(g.events)), gpubackend.Success
}

func (g *gpu) EventRecordWithFlags(
	e gpubackend.Event, s gpubackend.Stream, _ uint64,
) gpubackend.Result {
	g.events[e-1] = g.ends[s]
	g.records++
	return gpubackend.Success
}

func (g *gpu) EventQuery(e gpubackend.Event) gpubackend.Result {
	if g.events[e-1].After(g.now) {
		return gpubackend.NotReady
	}
	return gpubackend.Success
}

func (g *gpu) HomeOfCurrent() uint64              { return 1 }
func (g *gpu) Set(uint64, bool) gpubackend.Result { return gpubackend.Success }
func (g *gpu) idle() bool {
	for _, end := range g.ends {
		if end.After(g.now) {
			return false
		}
	}
	return true
}

// run gives a stream work of some length.
func (g *gpu) run(s gpubackend.Stream, long time.Duration) {
	begin := g.now
	if g.ends[s].After(begin) {
		begin = g.ends[s]
	}
	g.ends[s] = begin.Add(long)
}

// rig is an Admission at a gate, with such a device.
type rig struct {
	*Admission
	gpu       gpu
	page      *gate.Page
	bell      int
	capturing bool
	time      time.Duration // of the GPU, as it was counted
}

const slot = 5

func newRig(t testing.TB, s gate.State) *rig {
	t.Helper()
	p, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Set(s)
	r := &rig{page: p, bell: p.BellFD()}
	r.gpu = gpu{now: time.Unix(1000, 0), ends: map[gpubackend.Stream]time.Time{}}
	r.Admission = New(Config{
		Gate: p.Worker(slot), Fences: fences.New(&r.gpu, &r.gpu), Contexts: &r.gpu,
		Capturing: func() bool { return r.capturing }, Idle: r.gpu.idle,
		Count: func(d time.Duration) { r.time += d }, Now: func() time.Time { return r.gpu.now },
	})
	return r
}

// rang says whether the bell has rung since it was asked last.
func (r *rig) rang() bool {
	var b [8]byte
	_, err := unix.Read(r.bell, b[:])
	return err == nil
}

// launch has the worker launch a kernel of a function that takes so long, in a batch of its own.
func (r *rig) launch(s gpubackend.Stream, function uint64, long time.Duration) Answer {
	if r.Begin() {
		if answer := r.Admit(stream(s), kernel(function)); answer != Pass {
			r.Submitted()
			return answer
		}
	}
	r.gpu.run(s, long)
	r.Submitted()
	r.Executed()
	return Pass
}

// pass lets time pass in which the worker has nothing to do.
func (r *rig) pass(d time.Duration) {
	since := r.gpu.now
	for end := since.Add(d); r.gpu.now.Before(end); {
		r.gpu.now = r.gpu.now.Add(min(20*time.Microsecond, end.Sub(r.gpu.now)))
		if r.Stopped() == Pass {
			r.Begin()
		}
		r.Look(r.gpu.now, since)
	}
}

func stream(s gpubackend.Stream) Stream { return Stream{Context: 1, Native: s} }
func kernel(function uint64) Kind       { return Kind{Op: gpubackend.OpLaunchKernel, ID: function} }

const ms = time.Millisecond

// open is the state of a gate in a turn.
var open = gate.State{Open: true, Attend: true, InFlight: 2 * ms}

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

// flood launches as much as passes, and returns how many that were.
func (r *rig) flood(s gpubackend.Stream, function uint64, long time.Duration) (n int) {
	for n < 10000 && r.launch(s, function, long) == Pass {
		n++
	}
	return n
}

// TestInFlightIsBounded by the predicted time, which is learnt, and by numbers.
func TestInFlightIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name     string
		long     time.Duration
		min, max int
	}{
		{"tiny: by the number of units", 10 * time.Microsecond, maxUnits, maxUnits},
		{"short: by time", 400 * time.Microsecond, 4, 6},
		{"long: two", 30 * ms, minPieces, minPieces},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, open)
			for range 40 { // learn
				r.flood(1, 7, tt.long)
				r.pass(tt.long + 20*time.Microsecond)
			}
			r.pass(time.Second)
			if n := r.flood(1, 7, tt.long); n < tt.min || n > tt.max {
				t.Errorf("%d launches in flight, want %d to %d", n, tt.min, tt.max)
			}
			if n := r.flood(2, 7, tt.long); n < tt.min {
				t.Errorf("%d launches in another stream: the bound is for each", n)
			}
			if r.pass(time.Second); r.flying != 0 || r.InFlight() {
				t.Errorf("%d units are in flight for ever", r.flying)
			}
		})
	}
}

// TestUnknownKernels are launched in small numbers, until it is known how long they take.
func TestUnknownKernels(t *testing.T) {
	r := newRig(t, open)
	most := int(open.InFlight / firstGuess)
	if n := r.flood(1, 7, 50*ms); n < minPieces || n > most {
		t.Errorf("%d launches of a kernel that nobody knows, want %d to %d", n, minPieces, most)
	}
}

// TestCollectives: kernels in two streams wait for one another, and the second is behind the stop.
// The ring goes on after a while.
func TestCollectives(t *testing.T) {
	r := newRig(t, open)
	if n := r.flood(1, 7, time.Hour); n > maxUnits {
		t.Fatalf("%d launches of kernels that wait", n)
	}
	begin := r.gpu.now
	for r.launch(1, 7, time.Hour) != Pass {
		if r.pass(100 * time.Microsecond); r.gpu.now.Sub(begin) > time.Second {
			t.Fatal("the ring has stopped for ever")
		}
	}
	if waited := r.gpu.now.Sub(begin); waited < lateAfter {
		t.Errorf("more passed after %v, want %v at least", waited, lateAfter)
	}
	if n := r.flood(1, 7, time.Hour); n >= maxUnits {
		t.Errorf("%d more passed at once, want %d", n, maxUnits-1)
	}
	begin = r.gpu.now
	for r.launch(1, 7, time.Hour) != Pass {
		r.pass(100 * time.Microsecond)
	}
	if waited := r.gpu.now.Sub(begin); waited < 2*lateAfter {
		t.Errorf("more passed after %v for a second time, want %v", waited, 2*lateAfter)
	}
}

// TestEndsWakeTheRing: a stream that was full takes more as soon as something has ended.
func TestEndsWakeTheRing(t *testing.T) {
	r := newRig(t, open)
	r.flood(1, 7, ms)
	r.pass(time.Second)
	r.flood(1, 7, ms)
	r.pass(ms + 20*time.Microsecond)
	if r.launch(1, 7, ms) != Pass {
		t.Error("the stream takes no more although work has ended")
	}
}

// TestRipe: a large batch gets to the device in parts, so that the stream isn't empty before the
// next one.
func TestRipe(t *testing.T) {
	r := newRig(t, open)
	r.Begin()
	n := 0
	for ; r.Admit(stream(1), kernel(7)) == Pass; n++ {
		r.gpu.run(1, 100*time.Microsecond)
		if r.Ripe() {
			r.Submitted()
		}
	}
	if most := int(open.InFlight / firstGuess); n != most || r.flying < ripePart-1 {
		t.Errorf("%d launches between %d fences, want %d and %d", n, r.flying, most, ripePart)
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
		t.Errorf("%d units, %d events", r.flying, len(r.gpu.events))
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
		t.Errorf("waiting %v, in flight %v, %d units", waiting, inFlight, r.flying)
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

// TestManyStreamsAndKinds, as hostile guests have them, are forgotten.
func TestManyStreamsAndKinds(t *testing.T) {
	r := newRig(t, open)
	for i := range 3 * maxEstimates {
		r.launch(gpubackend.Stream(i), uint64(i), time.Microsecond)
		if i%10 == 0 {
			r.pass(20 * time.Microsecond)
		}
	}
	if len(r.all) > maxQueues || len(r.estimates.known) > maxEstimates {
		t.Errorf("%d streams, %d kinds", len(r.all), len(r.estimates.known))
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

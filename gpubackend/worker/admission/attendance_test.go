// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

var closed = gate.State{Attend: true, InFlight: 2 * ms}

// has checks what the rig has counted.
func (r *rig) has(t *testing.T, when string, waited time.Duration, used, overrun uint64) {
	t.Helper()
	got := time.Duration(r.counts[handover.TurnWait])
	if got != waited || r.counts[handover.TurnsUsed] != used ||
		r.counts[handover.TurnsOverrun] != overrun {
		t.Errorf("%s: waited %v, %d turns, %d overruns; want %v, %d, %d", when, got,
			r.counts[handover.TurnsUsed], r.counts[handover.TurnsOverrun], waited, used, overrun)
	}
}

// turn opens the gate for a turn.
func (r *rig) turn(number, overruns uint64) {
	r.page.SetTurn(gate.Turn{Number: number, Overruns: overruns})
	r.page.Set(open)
}

// TestWaitIsCounted while it lasts, until the gate lets the command through, or is free.
func TestWaitIsCounted(t *testing.T) {
	r := newRig(t, closed)
	r.pass(5 * ms)
	r.has(t, "without a command", 0, 0, 0)
	for range 3 {
		r.launch(1, 7, ms)
		r.gpu.now = r.gpu.now.Add(ms)
	}
	r.has(t, "at the closed gate", 2*ms, 0, 0)
	r.turn(1, 0)
	r.launch(1, 7, ms)
	r.has(t, "let through", 3*ms, 1, 0)
	r.pass(2 * ms)
	r.has(t, "in its turn", 3*ms, 1, 0)
	r.page.Set(closed)
	r.pass(2 * ms)
	r.launch(1, 7, ms)
	r.gpu.now = r.gpu.now.Add(ms)
	r.has(t, "a second wait has begun", 3*ms, 1, 0)
	r.page.Set(gate.Unshared)
	r.launch(1, 7, ms)
	r.pass(5 * ms)
	r.has(t, "at a free gate", 4*ms, 1, 0)
}

// TestWaitEndsWithTheCommand: what isn't there any more doesn't wait, and a worker that stands
// still doesn't either.
func TestWaitEndsWithTheCommand(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"the copy was given up": func(r *rig) { r.Begin(); r.Look(r.gpu.now, r.gpu.now) },
		"it stands still":       func(r *rig) { r.Standstill() },
	} {
		r := newRig(t, closed)
		r.Begin()
		if r.May() {
			t.Fatal("a closed gate lets a copy through")
		}
		end(r)
		r.gpu.now = r.gpu.now.Add(time.Hour)
		r.turn(1, 0)
		r.launch(1, 7, ms)
		r.has(t, name, 0, 1, 0)
	}
}

// TestTurnsAreCounted once, if work was begun in them, also where the end of one wasn't seen.
func TestTurnsAreCounted(t *testing.T) {
	r := newRig(t, closed)
	r.turn(5, 0)
	r.Begin()
	r.pass(ms)
	r.has(t, "nothing to do", 0, 0, 0)
	for range 10 {
		r.launch(1, 7, ms/10)
		r.pass(ms)
	}
	r.has(t, "several times in a turn", 0, 1, 0)
	r.turn(6, 0)
	r.pass(ms)
	r.turn(7, 0)
	r.launch(1, 7, 5*ms)
	r.has(t, "two turns later", 0, 2, 0)
	r.turn(8, 0) // its work goes on
	r.launch(1, 7, ms)
	r.has(t, "more work", 0, 3, 0)
	r.pass(20 * ms)
	r.turn(1, 0) // of another arbiter
	r.launch(1, 7, ms)
	r.has(t, "another arbiter", 0, 4, 0)
	r.pass(20 * ms)
	r.page.SetTurn(gate.Turn{Number: 2})
	r.page.Set(gate.Unshared)
	r.launch(1, 7, ms)
	r.has(t, "no turn", 0, 4, 0)
}

// TestNoTurnsAreTold: turns that the arbiter doesn't number aren't counted.
func TestNoTurnsAreTold(t *testing.T) {
	r := newRig(t, open)
	r.launch(1, 7, ms)
	r.pass(5 * ms)
	r.has(t, "no number", 0, 0, 0)
}

// TestOverrunsAreCounted only if the worker had work in flight at the time.
func TestOverrunsAreCounted(t *testing.T) {
	r := newRig(t, closed)
	told := func(overruns uint64) {
		r.page.SetTurn(gate.Turn{Number: 1, Overruns: overruns})
	}
	r.turn(1, 3)
	r.launch(1, 7, 20*ms)
	r.pass(5 * ms)
	r.has(t, "within its turn, after others' overruns", 0, 1, 0)
	r.page.Set(closed)
	r.pass(5 * ms)
	r.has(t, "after its turn", 0, 1, 0)
	told(4)
	r.pass(5 * ms)
	r.has(t, "too late", 0, 1, 1)
	r.pass(10 * ms)
	told(5)
	r.pass(5 * ms)
	r.has(t, "when another worker is too late", 0, 1, 1)
	r.turn(2, 5)
	r.launch(1, 7, 20*ms)
	told(0) // a new arbiter
	r.pass(5 * ms)
	told(1)
	r.pass(5 * ms)
	r.has(t, "of the next arbiter", 0, 2, 2)
}

// TestOverrunSeenAtTheEnd: the worker may look only when its work is over, or be made to stand
// still.
func TestOverrunSeenAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"it has ended":    func(r *rig) { r.Look(r.gpu.now, r.gpu.now) },
		"it stands still": func(r *rig) { r.Standstill() },
	} {
		r := newRig(t, gate.Unshared)
		r.launch(1, 7, 20*ms) // nobody counts that
		r.page.SetTurn(gate.Turn{Number: 1, Overruns: 1})
		r.page.Set(closed)
		r.Begin() // now it is in flight
		r.page.SetTurn(gate.Turn{Number: 1, Overruns: 2})
		r.gpu.now = r.gpu.now.Add(time.Minute)
		end(r)
		r.has(t, name, 0, 0, 1)
		if r.InFlight() {
			t.Errorf("%s, and is in flight", name)
		}
	}
}

// TestCountingWaitsDoesNotAllocate, nor does it ring.
func TestCountingWaitsDoesNotAllocate(t *testing.T) {
	r := newRig(t, closed)
	r.launch(1, 7, ms)
	r.rang()
	if n := testing.AllocsPerRun(100, func() { r.launch(1, 7, ms) }); n != 0 || r.rang() {
		t.Errorf("%v allocations, or the bell rings for each look", n)
	}
}

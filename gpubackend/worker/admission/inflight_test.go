// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestInFlightIsBounded by the predicted time, which is learnt, and by numbers.
func TestInFlightIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name     string
		long     time.Duration
		min, max int
	}{
		{"tiny: by the number of stretches", 10 * time.Microsecond, maxUnits, maxUnits},
		{"short: by time", 400 * time.Microsecond, 4, 6},
		{"half of what a stream may have: two", 1500 * time.Microsecond, minSubmissions,
			minSubmissions},
		{"long: one", 30 * ms, 1, 1},
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
				t.Errorf("%d stretches are in flight for ever", r.flying)
			}
		})
	}
}

// TestUnknownKernels are launched in small numbers, until it is known how long they take.
func TestUnknownKernels(t *testing.T) {
	r := newRig(t, open)
	most := int(open.InFlight / firstGuess)
	if n := r.flood(1, 7, 50*ms); n < minSubmissions || n > most {
		t.Errorf("%d launches of a kernel that nobody knows, want %d to %d", n,
			minSubmissions, most)
	}
}

// TestCollectives: kernels of two streams may wait for one another, while the second one is still
// in the ring, which has stopped. So the ring goes on after a while.
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

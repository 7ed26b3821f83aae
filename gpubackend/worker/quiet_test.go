// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

const us = time.Microsecond

// TestQuiet: the guess is the last wait that was longer than the worker polls in any case.
func TestQuiet(t *testing.T) {
	const spin = 500 * us
	begin := time.Now()
	cases := map[string]struct {
		waits []time.Duration // before this one
		idle  time.Duration
		calls bool // wait for the GPU now
		spin  time.Duration
		want  bool
	}{
		"no wait before": {idle: 4000 * us, calls: true, spin: spin},
		"as long": {waits: []time.Duration{4000 * us}, idle: 4000 * us, calls: true,
			spin: spin, want: true},
		"a little less": {waits: []time.Duration{4000 * us}, idle: 3700 * us, calls: true,
			spin: spin, want: true},
		"a little more": {waits: []time.Duration{4000 * us}, idle: 4300 * us, calls: true,
			spin: spin, want: true},
		"less": {waits: []time.Duration{4000 * us}, idle: 3600 * us, calls: true,
			spin: spin},
		"more": {waits: []time.Duration{4000 * us}, idle: 4400 * us, calls: true,
			spin: spin},
		"a short one between": {waits: []time.Duration{4000 * us, 40 * us}, idle: 4000 * us,
			calls: true, spin: spin, want: true},
		"another since": {waits: []time.Duration{4000 * us, 2000 * us}, idle: 4000 * us,
			calls: true, spin: spin},
		"nobody waits": {waits: []time.Duration{4000 * us}, idle: 4000 * us, spin: spin},
		"no longer than spin": {waits: []time.Duration{time.Minute}, idle: time.Minute - 600*us,
			calls: true, spin: spin},
		"which may be nothing": {waits: []time.Duration{4000 * us}, idle: 4000 * us, calls: true},
		"or less than the rest": {waits: []time.Duration{4000 * us}, idle: 3940 * us, calls: true,
			spin: 50 * us},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var q quiet
			q.end()
			for _, wait := range c.waits {
				q.goOn(begin, spin, true)
				q.goOn(begin.Add(wait), spin, true)
				q.end()
			}
			q.goOn(begin, spin, false)
			if got := q.goOn(begin.Add(c.idle), spin, c.calls); got != c.idle {
				t.Errorf("quiet for %v, want %v", got, c.idle)
			}
			if got := q.due(c.spin); got != c.want {
				t.Errorf("due: %v", got)
			}
		})
	}
}

// endless is work that is never over.
type endless struct{}

func (endless) Advance() gpubackend.Result  { return gpubackend.NotReady }
func (endless) Over(gpubackend.Result) bool { return true }

// TestRest: while a call waits the worker looks again and again without sleep, for a time, and the
// guest need not kick.
func TestRest(t *testing.T) {
	cases := map[string]struct {
		spin  uint32
		idle  time.Duration
		waits bool
		sleep bool
	}{
		"polls":                   {spin: 500, idle: 400 * us, waits: true},
		"naps":                    {spin: 500, idle: 4000 * us, waits: true},
		"sleeps after a long nap": {spin: 500, idle: 2 * napUntil, waits: true, sleep: true},
		"doesn't nap unasked":     {spin: 0, idle: 4000 * us, waits: true, sleep: true},
		"sleeps when nobody does": {spin: 500, idle: 4000 * us, sleep: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRaceRig(t)
			r.policy.SpinHostUs = c.spin
			if c.waits {
				waiting := call.New(nil)
				waiting.Start(&arena.Command{})
				r.waiting.Await(&waiting, endless{})
			} else {
				notify(r.wake) // ends the sleep
			}
			var before uint64
			// Again, if the machine kept the test from its processor for too long in between.
			for again := true; again; again = !c.sleep && r.quiet.idle >= napUntil {
				before = r.state.Counters()[handover.Sleeps]
				r.quiet.since = time.Now().Add(-c.idle)
				if err := r.rest(false); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.state.Counters()[handover.Sleeps] > before; got != c.sleep {
				t.Errorf("slept: %v", got)
			}
			if r.rest(true); !r.quiet.since.IsZero() {
				t.Error("something happened, and it is quiet still")
			}
		})
	}
}

// TestFetchIsAnnounced: a small copy from the device is answered by the device where that can, else
// when its fence is passed.
func TestFetchIsAnnounced(t *testing.T) {
	for _, announces := range []bool{true, false} {
		r := newRig(t)
		r.driver.ready, r.driver.announces = gpubackend.NotReady, announces
		if got := r.call(t, gpubackend.OpCopyDtoH, 0, wire.BufferBulk<<56|wire.Bulk, 64, 64, 0,
			wire.CopyFlagBlocking); got != call.Pending {
			t.Fatalf("answered %d before it was there", got)
		}
		if got := len(r.driver.announced) == 1; got != announces {
			t.Fatalf("announced %v", r.driver.announced)
		}
		for range 3 * turns {
			if r.pollWaiters() {
				t.Fatal("answered before it was there")
			}
		}
		if announces {
			*word(r.mem[wire.Slots:]) = r.driver.announced[0] // the device writes
		} else {
			r.driver.ready = gpubackend.Success
		}
		if !r.pollWaiters() || r.waiting.Len() != 0 || r.slot().Done != 1 || r.slot().Result != 0 {
			t.Fatalf("then: %+v", r.slot())
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
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
	gpu           gpu
	page          *gate.Page
	bell          int
	capturing     bool
	counts        handover.Counters
	time          time.Duration // of the GPU, as it was counted
	asked, looked int           // how often the driver was asked, and the clock read
}

const entry = 5

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
		Gate: p.Worker(entry), Fences: fences.New(&r.gpu, &r.gpu), Contexts: &r.gpu,
		Capturing: func() bool { return r.capturing },
		Idle: func() bool {
			r.asked++
			return r.gpu.idle()
		},
		Count: func(c handover.Counter, n uint64) {
			r.counts[c] += n
			r.time = time.Duration(r.counts[handover.GPUTime])
		},
		Now: func() time.Time {
			r.looked++
			return r.gpu.now
		},
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
func (r *rig) launch(s gpubackend.Stream, function uint64, long time.Duration) Verdict {
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

// flood launches as much as passes, and returns how many that were.
func (r *rig) flood(s gpubackend.Stream, function uint64, long time.Duration) (n int) {
	for n < 10000 && r.launch(s, function, long) == Pass {
		n++
	}
	return n
}

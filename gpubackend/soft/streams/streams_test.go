// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// rig is the streams of a device, and graphs that they can be captured into.
type rig struct {
	*Streams
	*roomtest.Ground
	graphs *graphs.Graphs
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Ground: roomtest.New(t, 64<<20)}
	r.graphs = graphs.New(graphs.Options{
		Handles: r.Handles, Contexts: r.Contexts, Memory: r.Memory,
		Check: func(*gpubackend.Node) gpubackend.Result { return gpubackend.Success },
	})
	r.Streams = New(Options{
		Handles: r.Handles, Scheduler: r.Scheduler, Contexts: r.Contexts, Memory: r.Memory,
		Graphs: r.graphs,
	})
	r.Ground.Lasts = r.Streams.Lasts
	r.Ended = r.Drop
	return r
}

func (r *rig) stream(t *testing.T, flags uint64) gpubackend.Stream {
	t.Helper()
	s, result := r.StreamCreateWithPriority(flags, 0)
	resulttest.OK(t, result)
	return s
}

// gate stops a stream until what it returns is called.
func (r *rig) gate(t *testing.T, s gpubackend.Stream) func() {
	t.Helper()
	release, result := r.HostFunc(s, 0, func(uint64) {})
	resulttest.OK(t, result)
	return release
}

// put queues a task that calls note.
func (r *rig) put(t *testing.T, h gpubackend.Stream, note func()) {
	t.Helper()
	s, result := r.Target(h)
	resulttest.OK(t, result)
	r.Enqueue(s, &scheduler.Task{Class: scheduler.Outside, Run: note})
}

// TestLegacyStreamOrdersBlockingOnes and no others.
func TestLegacyStreamOrdersBlockingOnes(t *testing.T) {
	r := newRig(t)
	blocking, free := r.stream(t, 0), r.stream(t, cudaabi.StreamNonBlocking)
	open := r.gate(t, blocking)
	var legacy, other atomic.Bool
	r.put(t, 0, func() { legacy.Store(true) })
	r.put(t, free, func() { other.Store(true) })
	for r.StreamQuery(free) == gpubackend.NotReady {
		time.Sleep(50 * time.Microsecond)
	}
	if !other.Load() || legacy.Load() {
		t.Errorf("non-blocking %v, legacy %v", other.Load(), legacy.Load())
	}
	resulttest.Want(t, r.StreamQuery(0), gpubackend.NotReady)
	open()
	resulttest.OK(t, r.Idle(t))
	if !legacy.Load() {
		t.Error("the legacy stream's work is lost")
	}
}

func TestDestroyedStreamsAreForgottenWhenIdle(t *testing.T) {
	r := newRig(t)
	s := r.stream(t, 0)
	open := r.gate(t, s)
	resulttest.OK(t, r.StreamDestroy(s))
	resulttest.Want(t, r.StreamQuery(s), gpubackend.InvalidHandle)
	r.stream(t, 0)
	if n := r.Kept(r.Contexts.Primary(0)); n != 2 {
		t.Errorf("%d streams are kept", n)
	}
	open()
	resulttest.OK(t, r.Idle(t))
	r.stream(t, 0)
	if n := r.Kept(r.Contexts.Primary(0)); n != 2 {
		t.Errorf("%d streams are kept", n)
	}
}

func TestEventsStandForTheLatestRecord(t *testing.T) {
	r := newRig(t)
	e, result := r.EventCreate(0)
	resulttest.OK(t, result)
	resulttest.OK(t, r.EventQuery(e)) // never recorded
	s := r.stream(t, cudaabi.StreamNonBlocking)
	open := r.gate(t, s)
	resulttest.OK(t, r.EventRecordWithFlags(e, s, 0))
	resulttest.Want(t, r.EventQuery(e), gpubackend.NotReady)
	waiting := r.stream(t, cudaabi.StreamNonBlocking)
	resulttest.OK(t, r.StreamWaitEvent(waiting, e, 0))
	resulttest.Want(t, r.StreamQuery(waiting), gpubackend.NotReady)
	_, result = r.EventElapsed(e, e)
	resulttest.Want(t, result, gpubackend.NotReady)
	open()
	resulttest.OK(t, r.Idle(t))
	resulttest.OK(t, r.EventQuery(e))
	if d, result := r.EventElapsed(e, e); d != 0 || result != gpubackend.Success {
		t.Errorf("elapsed %d, result %d", d, result)
	}
}

// TestCaptureMakesNodes of what is recorded, in the order of the stream.
func TestCaptureMakesNodes(t *testing.T) {
	r := newRig(t)
	h := r.stream(t, 0)
	resulttest.OK(t, r.StreamBeginCapture(h, 0))
	for range 2 {
		s, result := r.Target(h)
		resulttest.OK(t, result)
		if !s.Recording() {
			t.Fatal("not recording")
		}
		resulttest.OK(t, r.Record(s, &gpubackend.Node{Type: gpubackend.NodeEmpty}))
	}
	resulttest.Want(t, r.StreamQuery(0), gpubackend.StreamCaptureImplicit)
	_, result := r.StreamEndCapture(h)
	resulttest.Want(t, result, gpubackend.StreamCaptureInvalidated)
	resulttest.OK(t, r.StreamBeginCapture(h, 0))
	s, _ := r.Target(h)
	for range 2 {
		resulttest.OK(t, r.Record(s, &gpubackend.Node{Type: gpubackend.NodeEmpty}))
	}
	g, result := r.StreamEndCapture(h)
	resulttest.OK(t, result)
	from, to, result := r.graphs.GraphGetEdges(g, nil)
	resulttest.OK(t, result)
	if len(from) != 1 || len(to) != 1 || from[0] >= to[0] || r.Captures() != 0 {
		t.Errorf("edges from %v to %v, %d captures", from, to, r.Captures())
	}
	resulttest.OK(t, r.graphs.GraphDestroy(g))
	if held := r.graphs.Held(); held != (graphs.Held{}) {
		t.Errorf("%+v are left", held)
	}
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func newStream(t *testing.T, d *Device) gpubackend.Stream {
	t.Helper()
	s, r := d.StreamCreateWithPriority(1, 0)
	must(t, "stream", r)
	return s
}

// captureTwo begins a capture in s, which side joins, and gives both work in it.
func captureTwo(t *testing.T, d *Device, s, side gpubackend.Stream) {
	t.Helper()
	memory := alloc(t, d, 4096)
	fork, r := d.EventCreate(cudaabi.EventDisableTiming)
	must(t, "event", r)
	must(t, "begin", d.StreamBeginCapture(s, 0))
	must(t, "fill", d.MemsetD8Async(memory, 0, 4096, s))
	must(t, "record", d.EventRecordWithFlags(fork, s, 0))
	must(t, "wait", d.StreamWaitEvent(side, fork, 0))
	must(t, "fill", d.MemsetD8Async(memory, 0, 4096, side))
}

// TestStreamsThatEndInACapture aren't asked any more: neither one that joined it, nor the one in
// which it began.
func TestStreamsThatEndInACapture(t *testing.T) {
	d := newDevice(t, Options{})
	s, side := newStream(t, d), newStream(t, d)
	captureTwo(t, d, s, side)
	must(t, "query while there is a capture", d.ContextQuery())
	must(t, "destroy", d.StreamDestroy(side))
	must(t, "query", d.ContextQuery())
	_, r := d.StreamEndCapture(s)
	must(t, "end", r)
	must(t, "query", d.ContextQuery())
	side = newStream(t, d)
	captureTwo(t, d, s, side)
	must(t, "destroy", d.StreamDestroy(s))
	must(t, "destroy", d.StreamDestroy(side))
	must(t, "query", d.ContextQuery())
	if d.Capturing() {
		t.Error("a capture goes on")
	}
}

// TestWorkBeforeACaptureIsWaitedFor, in each stream that captures, with one event for each.
func TestWorkBeforeACaptureIsWaitedFor(t *testing.T) {
	d := newDevice(t, Options{})
	l := emptyLaunch(loadSilent(t, d, "empty"))
	s, side := newStream(t, d), newStream(t, d)
	for _, l.Stream = range []gpubackend.Stream{s, side} {
		must(t, "launch", d.Launch(l))
	}
	drivertest.Tell("fake_not_ready", 4)
	captureTwo(t, d, s, side)
	must(t, "destroy", d.StreamDestroy(side))
	for range 2 {
		want(t, "query", d.ContextQuery(), gpubackend.NotReady)
	}
	must(t, "query", d.ContextQuery())
	_, r := d.StreamEndCapture(s)
	must(t, "end", r)

	fork, r := d.EventCreate(cudaabi.EventDisableTiming)
	must(t, "event", r)
	must(t, "begin", d.StreamBeginCapture(s, 0))
	other := newStream(t, d)
	for range 50 { // a busy stream that waits for an event of no capture
		l.Stream = other
		must(t, "launch", d.Launch(l))
		drivertest.Tell("fake_not_ready", 1)
		must(t, "wait", d.StreamWaitEvent(other, fork, 0))
	}
	if n := d.Current().Work.Marks(); n != 1 {
		t.Errorf("%d events for one stream", n)
	}
	must(t, "destroy", d.StreamDestroy(other))
	must(t, "destroy", d.StreamDestroy(s))
	must(t, "query", d.ContextQuery())
}

// TestStreamsThatEndInAnotherContext than their own aren't asked when their own is current again,
// but their work is waited for.
func TestStreamsThatEndInAnotherContext(t *testing.T) {
	d := newDevice(t, Options{})
	first := d.CurrentHandle()
	l := emptyLaunch(loadSilent(t, d, "empty"))
	l.Stream = newStream(t, d)
	must(t, "launch", d.Launch(l))
	second, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "set current", d.SetCurrent(second))
	drivertest.Tell("fake_not_ready", 2)
	must(t, "destroy", d.StreamDestroy(l.Stream))
	if d.CurrentHandle() != second {
		t.Errorf("the current context is %#x", d.CurrentHandle())
	}
	must(t, "query", d.ContextQuery())
	must(t, "set current", d.SetCurrent(first))
	want(t, "query", d.ContextQuery(), gpubackend.NotReady)
	must(t, "query", d.ContextQuery())
}

// TestStreamsThatEndWithTheirContext aren't asked, though they were given work while another
// context was current.
func TestStreamsThatEndWithTheirContext(t *testing.T) {
	d := newDevice(t, Options{})
	first, memory := d.CurrentHandle(), alloc(t, d, 4096)
	second, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "set current", d.SetCurrent(second))
	s := newStream(t, d)
	must(t, "set current", d.SetCurrent(first))
	must(t, "fill", d.MemsetD8Async(memory, 0, 4096, s))
	must(t, "destroy", d.CtxDestroy(second))
	must(t, "query", d.ContextQuery())
	if d.streamRoom.Known() != 0 {
		t.Errorf("%d streams are known", d.streamRoom.Known())
	}
}

// TestCapturesEndWithTheirContext, so that other streams are announced again.
func TestCapturesEndWithTheirContext(t *testing.T) {
	d := newDevice(t, Options{})
	c, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "set current", d.SetCurrent(c))
	must(t, "begin", d.StreamBeginCapture(newStream(t, d), 0))
	must(t, "destroy", d.CtxDestroy(c))
	if d.Capturing() {
		t.Error("a capture goes on")
	}
}

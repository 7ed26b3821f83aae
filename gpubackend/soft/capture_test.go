// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

// capturing is a device with streams and events, of which the first stream records one fill.
type capturing struct {
	*Device
	t           testing.TB
	s, u, plain gpubackend.Stream // s records; plain is a blocking stream
	e, f        gpubackend.Event
	a           uint64
}

func newCapturing(t testing.TB, d *Device) *capturing {
	t.Helper()
	c := &capturing{
		Device: d, t: t, s: newStream(t, d, 1), u: newStream(t, d, 1), plain: newStream(t, d, 0),
		e: newEvent(t, d), f: newEvent(t, d), a: alloc(t, d, 4096),
	}
	ok(t, d.StreamBeginCapture(c.s, 0))
	ok(t, d.MemsetD8Async(c.a, 1, 4096, c.s))
	return c
}

// fork records the event e in s, and lets u wait for it.
func (c *capturing) fork() {
	c.t.Helper()
	ok(c.t, c.EventRecordWithFlags(c.e, c.s, 0))
	ok(c.t, c.StreamWaitEvent(c.u, c.e, 0))
}

func TestCaptureErrors(t *testing.T) {
	for _, x := range []struct {
		name      string
		do        func(c *capturing) gpubackend.Result
		want, end gpubackend.Result
	}{
		{"nothing", func(*capturing) gpubackend.Result { return 0 }, 0, 0},
		{"begin again",
			func(c *capturing) gpubackend.Result { return c.StreamBeginCapture(c.s, 0) },
			gpubackend.IllegalState, 0},
		{"query", func(c *capturing) gpubackend.Result { return c.StreamQuery(c.s) },
			gpubackend.StreamCaptureUnsupported, gpubackend.StreamCaptureInvalidated},
		{"fill at address 0", func(c *capturing) gpubackend.Result {
			return c.MemsetD32Async(0, 1, 1, c.s)
		}, 0, 0},
		{"copy from the host",
			func(c *capturing) gpubackend.Result { return c.CopyIn(c.a, []byte{1}, c.s) },
			gpubackend.StreamCaptureUnsupported, gpubackend.StreamCaptureInvalidated},
		{"callback",
			func(c *capturing) gpubackend.Result { _, r := c.HostFunc(c.s, 1, nil); return r },
			gpubackend.StreamCaptureUnsupported, gpubackend.StreamCaptureInvalidated},
		{"after an error", func(c *capturing) gpubackend.Result {
			c.StreamQuery(c.s)
			return c.MemsetD8Async(c.a, 1, 1, c.s)
		}, gpubackend.StreamCaptureInvalidated, gpubackend.StreamCaptureInvalidated},
		{"legacy stream",
			func(c *capturing) gpubackend.Result { return c.MemsetD8Async(c.a, 1, 1, 0) }, 0, 0},
		{"legacy stream and a blocking one", func(c *capturing) gpubackend.Result {
			ok(c.t, c.EventRecordWithFlags(c.e, c.s, 0))
			ok(c.t, c.StreamWaitEvent(c.plain, c.e, 0))
			return c.MemsetD8Async(c.a, 1, 1, 0)
		}, gpubackend.StreamCaptureImplicit, gpubackend.StreamCaptureInvalidated},
		{"unjoined",
			func(c *capturing) gpubackend.Result {
				c.fork()
				return c.MemsetD8Async(c.a, 1, 1, c.u)
			},
			0, gpubackend.StreamCaptureUnjoined},
		{"fork without work", func(c *capturing) gpubackend.Result { c.fork(); return 0 }, 0, 0},
		{"end elsewhere",
			func(c *capturing) gpubackend.Result {
				c.fork()
				_, r := c.StreamEndCapture(c.u)
				return r
			},
			gpubackend.StreamCaptureUnmatched, 0},
		{"end what didn't begin",
			func(c *capturing) gpubackend.Result { _, r := c.StreamEndCapture(c.u); return r },
			gpubackend.IllegalState, 0},
		{"merge", func(c *capturing) gpubackend.Result {
			ok(c.t, c.StreamBeginCapture(c.u, 0))
			ok(c.t, c.EventRecordWithFlags(c.e, c.u, 0))
			return c.StreamWaitEvent(c.s, c.e, 0)
		}, gpubackend.StreamCaptureMerge, gpubackend.StreamCaptureInvalidated},
		{"wait for work outside", func(c *capturing) gpubackend.Result {
			ok(c.t, c.EventRecordWithFlags(c.e, c.u, 0))
			return c.StreamWaitEvent(c.s, c.e, 0)
		}, gpubackend.StreamCaptureIsolation, gpubackend.StreamCaptureInvalidated},
		{"wait for nothing",
			func(c *capturing) gpubackend.Result { return c.StreamWaitEvent(c.s, c.e, 0) }, 0, 0},
		{"query an event",
			func(c *capturing) gpubackend.Result { c.fork(); return c.EventQuery(c.e) },
			gpubackend.CapturedEvent, gpubackend.StreamCaptureInvalidated},
		{"query an event of a capture that was spoiled", func(c *capturing) gpubackend.Result {
			c.fork()
			c.StreamQuery(c.s)
			return c.EventQuery(c.e)
		}, gpubackend.InvalidValue, gpubackend.StreamCaptureInvalidated},
		{"wait for no event",
			func(c *capturing) gpubackend.Result { return c.StreamWaitEvent(c.s, 99, 0) },
			gpubackend.InvalidHandle, gpubackend.StreamCaptureInvalidated},
		{"wait with unknown flags",
			func(c *capturing) gpubackend.Result { return c.StreamWaitEvent(c.s, c.e, 2) },
			gpubackend.InvalidValue, 0},
		{"launch an empty grid", func(c *capturing) gpubackend.Result {
			f := getFunction(c.t, c.Device, loadFile(c.t, c.Device, "testdata/small.ptx"), "scale")
			return c.Launch(&gpubackend.Launch{Function: f, Stream: c.s, Block: [3]uint32{1, 1, 1},
				Parameters: append(params(c.a), 4)})
		}, gpubackend.InvalidValue, gpubackend.StreamCaptureInvalidated},
		{"copy the attributes of a spoiled stream", func(c *capturing) gpubackend.Result {
			c.StreamQuery(c.s)
			return c.StreamCopyAttributes(c.u, c.s)
		}, gpubackend.StreamCaptureInvalidated, gpubackend.StreamCaptureInvalidated},
		{"time an event",
			func(c *capturing) gpubackend.Result {
				c.fork()
				_, r := c.EventElapsed(c.f, c.e)
				return r
			},
			gpubackend.CapturedEvent, gpubackend.StreamCaptureInvalidated},
		{"wait in the legacy stream", func(c *capturing) gpubackend.Result {
			ok(c.t, c.EventRecordWithFlags(c.e, c.s, 0))
			return c.StreamWaitEvent(0, c.e, 0)
		}, gpubackend.StreamCaptureUnsupported, gpubackend.StreamCaptureInvalidated},
		{"destroy a stream that joined",
			func(c *capturing) gpubackend.Result { c.fork(); return c.StreamDestroy(c.u) }, 0, 0},
		{"destroy a stream with work that isn't joined", func(c *capturing) gpubackend.Result {
			c.fork()
			ok(c.t, c.MemsetD8Async(c.a, 1, 1, c.u))
			return c.StreamDestroy(c.u)
		}, 0, gpubackend.StreamCaptureUnjoined},
		{"join after the stream is gone", func(c *capturing) gpubackend.Result {
			c.fork()
			ok(c.t, c.MemsetD8Async(c.a, 1, 1, c.u))
			ok(c.t, c.EventRecordWithFlags(c.f, c.u, 0))
			ok(c.t, c.StreamDestroy(c.u))
			return c.StreamWaitEvent(c.s, c.f, 0)
		}, 0, 0},
		{"destroy the stream",
			func(c *capturing) gpubackend.Result { c.fork(); return c.StreamDestroy(c.s) },
			0, gpubackend.InvalidHandle},
		{"external record outside", func(c *capturing) gpubackend.Result {
			return c.EventRecordWithFlags(c.e, c.u, streams.ExternalFlag)
		},
			gpubackend.IllegalState, 0},
		{"external wait outside",
			func(c *capturing) gpubackend.Result {
				return c.StreamWaitEvent(c.u, c.e, streams.ExternalFlag)
			},
			gpubackend.IllegalState, 0},
		{"query twice",
			func(c *capturing) gpubackend.Result { c.StreamQuery(c.s); return c.StreamQuery(c.s) },
			gpubackend.StreamCaptureUnsupported, gpubackend.StreamCaptureInvalidated},
		{"external record", func(c *capturing) gpubackend.Result {
			return c.EventRecordWithFlags(c.e, c.s, streams.ExternalFlag)
		}, 0, 0},
		{"launch a graph", func(c *capturing) gpubackend.Result {
			g, r := c.GraphCreate(0)
			ok(c.t, r)
			return c.GraphLaunch(instantiate(c.t, c.Device, g, 0), c.s)
		}, gpubackend.StreamCaptureUnsupported, gpubackend.StreamCaptureInvalidated},
		{"destroy its graph", func(c *capturing) gpubackend.Result {
			_, _, g, _, r := c.StreamCaptureInfo(c.s, nil)
			ok(c.t, r)
			return c.GraphDestroy(g)
		}, gpubackend.InvalidValue, 0},
		{"dependencies elsewhere", func(c *capturing) gpubackend.Result {
			return c.StreamUpdateCaptureDependencies(c.u, nil, nil, 1)
		}, gpubackend.IllegalState, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			c := newCapturing(t, d)
			want(t, x.do(c), x.want)
			g, result := d.StreamEndCapture(c.s)
			want(t, result, x.end)
			if (g != 0) != (result == gpubackend.Success) {
				t.Errorf("graph %d", g)
			}
			d.StreamEndCapture(c.u)
			if d.Captures() != 0 {
				t.Errorf("%d captures go on", d.Captures())
			}
			ok(t, d.EventRecordWithFlags(c.e, c.plain, 0))
			ok(t, d.StreamWaitEvent(0, c.e, 0))
			ok(t, d.StreamQuery(0))
			if got := read(t, d, c.a, 4096)[4095]; got != 0 {
				t.Errorf("what was recorded ran: %d", got)
			}
		})
	}
}

func TestCaptureOfTwoStreams(t *testing.T) {
	d := newDevice(t, Options{})
	c := newCapturing(t, d)
	c.fork()
	ok(t, d.Copy(c.a+8, c.a, 8, c.u))
	ok(t, d.MemsetD8Async(c.a+16, 2, 8, c.s))
	ok(t, d.EventRecordWithFlags(c.f, c.u, 0))
	ok(t, d.StreamWaitEvent(c.s, c.f, 0))
	status, id, g, tail, result := d.StreamCaptureInfo(c.s, nil)
	if status != cudaabi.CaptureStatusActive || id == 0 || len(tail) != 2 ||
		result != gpubackend.Success {
		t.Errorf("status %d, id %d, after %v, result %d", status, id, tail, result)
	}
	ok(t, d.StreamUpdateCaptureDependencies(c.u, tail, nil, 0))
	if _, _, _, tail, _ := d.StreamCaptureInfo(c.u, nil); len(tail) != 2 {
		t.Errorf("after %v", tail)
	}
	ended, result := d.StreamEndCapture(c.s)
	ok(t, result)
	if ended != g {
		t.Errorf("graph %d, was %d", ended, g)
	}
	from, to, _ := d.GraphGetEdges(g, nil)
	if len(from) != 2 || from[0] != from[1] || to[0] == to[1] {
		t.Errorf("edges from %v to %v", from, to)
	}
	e := instantiate(t, d, g, 0)
	ok(t, d.GraphLaunch(e, c.plain))
	synchronize(t, d)
	if got := read(t, d, c.a, 32); got[0] != 1 || got[15] != 1 || got[16] != 2 || got[31] != 1 {
		t.Errorf("got %v", got)
	}
	ok(t, d.StreamBeginCaptureToGraph(c.u, g, to, nil, 0))
	ok(t, d.MemsetD8Async(c.a, 3, 8, c.u))
	same, result := d.StreamEndCapture(c.u)
	ok(t, result)
	nodes, _ := d.GraphGetNodes(same)
	if last, _ := d.GraphNodeGetDependencies(nodes[len(nodes)-1], nil); same != g ||
		len(nodes) != 4 || len(last) != 2 {
		t.Errorf("graph %d, nodes %v", same, nodes)
	}
}

// TestFailedCaptureTakesItsGraph captures to a graph and spoils that.
func TestFailedCaptureTakesItsGraph(t *testing.T) {
	c := newCapturing(t, newDevice(t, Options{}))
	g, result := c.GraphCreate(0)
	ok(t, result)
	ok(t, c.StreamBeginCaptureToGraph(c.u, g, nil, nil, 0))
	want(t, c.StreamQuery(c.u), gpubackend.StreamCaptureUnsupported)
	_, result = c.StreamEndCapture(c.u)
	want(t, result, gpubackend.StreamCaptureInvalidated)
	want(t, c.GraphDestroy(g), gpubackend.InvalidValue)
}

func TestCapturesEndWithTheirContext(t *testing.T) {
	d := newDevice(t, Options{})
	newCapturing(t, d)
	ok(t, d.DevicePrimaryCtxReset(0))
	if d.Captures() != 0 || d.Graphs.Held().Bytes != 0 || d.handles.Len() != 1 {
		t.Errorf("%d captures, %d bytes, %d handles are left", d.Captures(), d.Graphs.Held().Bytes,
			d.handles.Len())
	}
}

// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Capturing says whether any stream was told to capture. Others may capture too, since events carry
// captures from stream to stream.
func (x *Streams) Capturing() bool { return len(x.capturing) > 0 }

// isCapturing asks the driver, if any stream is capturing. It returns StreamCaptureImplicit for the
// legacy stream while one that waits for it is captured: to query it then would end that capture,
// which this question doesn't.
func (x *Streams) isCapturing(s gpubackend.Stream) (bool, gpubackend.Result) {
	if !x.Capturing() {
		return false, gpubackend.Success
	}
	status, r := x.calls.StreamIsCapturing(s)
	if r == gpubackend.StreamCaptureImplicit {
		return false, r
	}
	return r == gpubackend.Success && status != 0, gpubackend.Success
}

// StreamBeginCapture begins a capture without rules about threads.
func (x *Streams) StreamBeginCapture(s gpubackend.Stream, _ uint64) gpubackend.Result {
	x.beforeCapture(s)
	return x.began(s, x.calls.StreamBeginCaptureRelaxed(s))
}

// StreamBeginCaptureToGraph does so, and adds to a graph.
func (x *Streams) StreamBeginCaptureToGraph(
	s gpubackend.Stream, g gpubackend.Graph, nodes []gpubackend.GraphNode, edges []byte, _ uint64,
) gpubackend.Result {
	if !driver.EdgesFit(edges, len(nodes)) {
		return gpubackend.InvalidValue
	}
	x.beforeCapture(s)
	return x.began(s, x.calls.StreamBeginCaptureToGraphRelaxed(s, g, nodes, edges))
}

func (x *Streams) began(s gpubackend.Stream, r gpubackend.Result) gpubackend.Result {
	if r == gpubackend.Success {
		x.capturing[s] = struct{}{}
	}
	return x.contexts.Failed(r)
}

// StreamEndCapture ends a capture.
func (x *Streams) StreamEndCapture(s gpubackend.Stream) (gpubackend.Graph, gpubackend.Result) {
	g, r := x.calls.StreamEndCapture(s)
	if r != gpubackend.StreamCaptureUnmatched && r != gpubackend.IllegalState {
		delete(x.capturing, s)
	}
	if r != gpubackend.Success {
		return 0, x.contexts.Failed(r)
	}
	return g, r
}

// beforeCapture marks the work that a stream has so far: while it captures, it can't be asked.
func (x *Streams) beforeCapture(s gpubackend.Stream) {
	if c := x.contexts.Current(); c != nil && activity.Unified(s) != gpubackend.DefaultStream {
		x.watchLast(c, s)
	}
}

// watchLast makes an event stand for the work that a stream was given in a context.
func (x *Streams) watchLast(c *contexts.Context, s gpubackend.Stream) {
	if !c.Work.Has(s) {
		return
	}
	x.contexts.In(c, func() gpubackend.Result {
		captured, r := x.isCapturing(s)
		if !captured && r == gpubackend.Success && x.calls.StreamQuery(s) == gpubackend.NotReady {
			x.mark(&c.Work, s)
		}
		return gpubackend.Success
	})
	c.Work.Done(s)
}

// mark records an event in a stream, the same one each time.
func (x *Streams) mark(work *activity.Activity, s gpubackend.Stream) {
	e, known := work.MarkOf(s)
	if !known {
		var r gpubackend.Result
		if e, r = x.calls.EventCreate(cudaabi.EventDisableTiming); r != gpubackend.Success {
			return
		}
		work.AddMark(activity.Mark{Event: e, Stream: s})
	}
	x.calls.EventRecordWithFlags(e, s, 0)
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// StreamBeginCapture begins a capture without rules about threads.
func (d *Device) StreamBeginCapture(s gpubackend.Stream, _ uint64) gpubackend.Result {
	d.beforeCapture(s)
	r := d.StreamBeginCaptureRelaxed(s)
	if r == gpubackend.Success {
		d.capturing[s] = struct{}{}
	}
	return d.failed(r)
}

// StreamBeginCaptureToGraph does so, adding to a graph.
func (d *Device) StreamBeginCaptureToGraph(
	s gpubackend.Stream, g gpubackend.Graph, nodes []gpubackend.GraphNode, edges []byte, _ uint64,
) gpubackend.Result {
	if !driver.EdgesFit(edges, len(nodes)) {
		return gpubackend.InvalidValue
	}
	d.beforeCapture(s)
	r := d.StreamBeginCaptureToGraphRelaxed(s, g, nodes, edges)
	if r == gpubackend.Success {
		d.capturing[s] = struct{}{}
	}
	return d.failed(r)
}

// StreamEndCapture ends it.
func (d *Device) StreamEndCapture(s gpubackend.Stream) (gpubackend.Graph, gpubackend.Result) {
	g, r := d.calls.StreamEndCapture(s)
	if r != gpubackend.StreamCaptureUnmatched && r != gpubackend.IllegalState {
		delete(d.capturing, s)
	}
	if r != gpubackend.Success {
		return 0, d.failed(r)
	}
	return g, r
}

// isCapturing asks the driver, if any stream is capturing: events carry captures from stream to stream.
func (d *Device) isCapturing(s gpubackend.Stream) bool {
	if len(d.capturing) == 0 {
		return false
	}
	status, r := d.StreamIsCapturing(s)
	return r == gpubackend.Success && status != 0
}

// StreamMemOps queues operations on memory, in order.
func (d *Device) StreamMemOps(s gpubackend.Stream, ops []byte, flags uint64) gpubackend.Result {
	return d.failed(d.StreamBatchMemOp(s, ops, flags))
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// captureRelaxed is CU_STREAM_CAPTURE_MODE_RELAXED. The driver's rules about threads mean nothing here, where one thread
// calls for all of the guest's: the guest's library applies them.
const captureRelaxed = 2

// StreamBeginCapture begins a capture without rules about threads.
func (d *Device) StreamBeginCapture(s gpubackend.Stream, _ uint64) gpubackend.Result {
	d.beforeCapture(s)
	r := d.calls.StreamBeginCapture(s, captureRelaxed)
	if r == gpubackend.Success {
		d.capturing[s] = struct{}{}
	}
	return d.failed(r)
}

// StreamBeginCaptureToGraph does so, adding to a graph.
func (d *Device) StreamBeginCaptureToGraph(
	s gpubackend.Stream, g gpubackend.Graph, nodes []gpubackend.GraphNode, edges []byte, _ uint64,
) gpubackend.Result {
	list, edge := handles(nodes), raw(edges)
	defer list.free()
	defer edge.free()
	if !edgesFit(edges, len(nodes)) {
		return gpubackend.InvalidValue
	}
	d.beforeCapture(s)
	r := d.call(symStreamBeginCaptureToGraph, uint64(s), uint64(g), list.orNull(), edge.orNull(), uint64(len(nodes)), captureRelaxed)
	if r == gpubackend.Success {
		d.capturing[s] = struct{}{}
	}
	return d.failed(r)
}

// StreamEndCapture ends it.
func (d *Device) StreamEndCapture(s gpubackend.Stream) (gpubackend.Graph, gpubackend.Result) {
	g, r := d.calls.StreamEndCapture(s)
	if r != gpubackend.CaptureUnmatched && r != gpubackend.IllegalState {
		delete(d.capturing, s)
	}
	if r != gpubackend.Success {
		return 0, d.failed(r)
	}
	return g, r
}

// isCapturing asks the driver, if any stream is capturing: events carry captures from stream to stream.
func (d *Device) isCapturing(s gpubackend.Stream) bool {
	return len(d.capturing) > 0 && d.call(symStreamIsCapturing, uint64(s), d.out(3)) == gpubackend.Success && d.value(3) != 0
}

// StreamCaptureInfo tells of the capture in a stream.
func (d *Device) StreamCaptureInfo(s gpubackend.Stream, edges []byte) (
	status, id uint64, graph gpubackend.Graph, nodes []gpubackend.GraphNode, r gpubackend.Result,
) {
	more := allocate(24)
	defer more.free()
	at := more.address()
	if d.function[symStreamGetCaptureInfo] == nil {
		r = d.call(symStreamIsCapturing, uint64(s), d.out(0))
		return d.value(0), 0, 0, nil, r
	}
	r = d.call(symStreamGetCaptureInfo, uint64(s), d.out(0), d.out(1), d.out(2), at, at+8, at+16)
	status, id, graph = d.value(0), d.value(1), gpubackend.Graph(d.value(2))
	v := words(more)
	if r != gpubackend.Success || status != captureActive {
		return status, id, 0, nil, r
	}
	for _, n := range wordsAt(v[0], v[2]) {
		nodes = append(nodes, gpubackend.GraphNode(n))
	}
	if v[1] != 0 {
		copy(edges, bytesOf(v[1], 8*v[2]))
	}
	return status, id, graph, nodes, r
}

// captureActive is CU_STREAM_CAPTURE_STATUS_ACTIVE.
const captureActive = 1

// StreamUpdateCaptureDependencies changes what the next node of a capture comes after.
func (d *Device) StreamUpdateCaptureDependencies(
	s gpubackend.Stream, nodes []gpubackend.GraphNode, edges []byte, flags uint64,
) gpubackend.Result {
	list, edge := handles(nodes), raw(edges)
	defer list.free()
	defer edge.free()
	if !edgesFit(edges, len(nodes)) {
		return gpubackend.InvalidValue
	}
	return d.call(symStreamUpdateCaptureDependencies, uint64(s), list.orNull(), edge.orNull(), uint64(len(nodes)), flags)
}

// StreamMemOps queues operations on memory, in order.
func (d *Device) StreamMemOps(s gpubackend.Stream, ops []byte, flags uint64) gpubackend.Result {
	b := raw(ops)
	defer b.free()
	return d.failed(d.call(symStreamBatchMemOp, uint64(s), uint64(len(ops)/memOpBytes), b.address(), flags))
}

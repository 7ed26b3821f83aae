// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// captureRelaxed is how all captures are made. The driver's rules about threads mean nothing here,
// where one thread calls for all threads of the guest; the guest's library applies them.
const captureRelaxed = cudaabi.CaptureModeRelaxed

// StreamBeginCaptureRelaxed begins a capture without rules about threads.
func (d Streams) StreamBeginCaptureRelaxed(s gpubackend.Stream) gpubackend.Result {
	return d.StreamBeginCapture(s, captureRelaxed)
}

// StreamBeginCaptureToGraphRelaxed does so, and adds to a graph.
func (d Streams) StreamBeginCaptureToGraphRelaxed(
	s gpubackend.Stream, g gpubackend.Graph, nodes []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	if !EdgesFit(edges, len(nodes)) {
		return gpubackend.InvalidValue
	}
	list, edge := cmem.Handles(nodes), cmem.Optional(edges)
	defer list.Free()
	defer edge.Free()
	return d.call(symStreamBeginCaptureToGraph, uint64(s), uint64(g), list.Address(),
		edge.Address(),
		uint64(len(nodes)), captureRelaxed)
}

// StreamIsCapturing is the state of a stream's capture.
func (d Streams) StreamIsCapturing(s gpubackend.Stream) (status uint64, r gpubackend.Result) {
	r = d.call(symStreamIsCapturing, uint64(s), d.out(3))
	return d.value(3), r
}

// StreamCaptureInfo tells of the capture in a stream.
func (d Streams) StreamCaptureInfo(s gpubackend.Stream, edges []byte) (
	status, id uint64, graph gpubackend.Graph, nodes []gpubackend.GraphNode, r gpubackend.Result,
) {
	if d.function[symStreamGetCaptureInfo] == nil {
		status, r = d.StreamIsCapturing(s)
		return status, 0, 0, nil, r
	}
	more := cmem.Allocate(24)
	defer more.Free()
	at := more.Address()
	r = d.call(symStreamGetCaptureInfo, uint64(s), d.out(0), d.out(1), d.out(2), at, at+8, at+16)
	status, id, graph = d.value(0), d.value(1), gpubackend.Graph(d.value(2))
	if r != gpubackend.Success || status != cudaabi.CaptureStatusActive {
		return status, id, 0, nil, r
	}
	v := more.Words()
	if v[1] != 0 {
		copy(edges, cmem.BytesAt(v[1], EdgeBytes*v[2]))
	}
	return status, id, graph, nodesOf(cmem.WordsAt(v[0], v[2])), r
}

// StreamUpdateCaptureDependencies changes what the next node of a capture comes after.
func (d Streams) StreamUpdateCaptureDependencies(
	s gpubackend.Stream, nodes []gpubackend.GraphNode, edges []byte, flags uint64,
) gpubackend.Result {
	if !EdgesFit(edges, len(nodes)) {
		return gpubackend.InvalidValue
	}
	list, edge := cmem.Handles(nodes), cmem.Optional(edges)
	defer list.Free()
	defer edge.Free()
	return d.call(symStreamUpdateCaptureDependencies, uint64(s), list.Address(), edge.Address(),
		uint64(len(nodes)), flags)
}

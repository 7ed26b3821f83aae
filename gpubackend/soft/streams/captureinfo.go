// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// StreamCaptureInfo implements gpubackend.Driver. Asking for the legacy stream while a blocking one
// records is an error that does no harm.
func (x *Streams) StreamCaptureInfo(h gpubackend.Stream, edges []byte) (
	status, id uint64, graph gpubackend.Graph, nodes []gpubackend.GraphNode,
	result gpubackend.Result,
) {
	clear(edges)
	s, result := x.Find(h)
	if result != gpubackend.Success {
		return 0, 0, 0, nil, result
	}
	c := s.capture
	switch {
	case c == nil && s.isLegacy() && s.group.recordsBlocking():
		return 0, 0, 0, nil, gpubackend.StreamCaptureImplicit
	case c == nil:
		return cudaabi.CaptureStatusNone, 0, 0, nil, gpubackend.Success
	case c.bad:
		return cudaabi.CaptureStatusInvalidated, c.id, 0, nil, gpubackend.Success
	}
	return cudaabi.CaptureStatusActive, c.id, gpubackend.Graph(c.graph.Handle),
		graphs.HandlesOf(s.tail),
		gpubackend.Success
}

// recordsBlocking says whether a blocking stream, which the legacy stream would wait for, records.
func (g *streamGroup) recordsBlocking() bool {
	return slices.ContainsFunc(g.set.list, func(s *Stream) bool {
		return s.capture != nil && s.blocking && s.group == g
	})
}

// StreamUpdateCaptureDependencies implements gpubackend.Driver.
func (x *Streams) StreamUpdateCaptureDependencies(
	h gpubackend.Stream, list []gpubackend.GraphNode, edges []byte, flags uint64,
) gpubackend.Result {
	s, result := x.Find(h)
	if result != gpubackend.Success {
		return result
	}
	switch {
	case s.capture == nil:
		return gpubackend.IllegalState
	case s.capture.bad:
		return gpubackend.StreamCaptureInvalidated
	case flags&^cudaabi.StreamSetCaptureDependencies != 0:
		return gpubackend.InvalidValue
	}
	nodes, result := x.options.Graphs.FindNodes(s.capture.graph, list)
	if result != gpubackend.Success {
		return result
	}
	if !graphs.PlainEdges(edges) {
		return gpubackend.NotSupported
	}
	if flags&cudaabi.StreamSetCaptureDependencies == 0 {
		nodes = union(s.tail, nodes)
	}
	s.tail = nodes
	return gpubackend.Success
}

// union is a new list of all nodes of a and, behind them, those of b that are not in a.
func union(a, b []*graphs.Node) []*graphs.Node {
	list := slices.Clone(a)
	for _, n := range b {
		if !slices.Contains(a, n) {
			list = append(list, n)
		}
	}
	return list
}

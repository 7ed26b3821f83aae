// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// capture is a graph that streams are recorded into instead of being run. An invalid one goes on
// until it is ended in the stream where it began.
type capture struct {
	id     uint64
	graph  *graphs.Graph
	origin *Stream
	joined []*Stream      // those that record, the origin among them
	left   []*graphs.Node // the last nodes of streams that recorded and are gone
	bad    bool
	over   bool
}

// beginCapture makes a stream record into a graph, after some of its nodes.
func (x *Streams) beginCapture(s *Stream, g *graphs.Graph, after []*graphs.Node) {
	x.lastCapture++
	x.captures++
	g.BeginCapture()
	s.capture = &capture{id: x.lastCapture, graph: g, origin: s, joined: []*Stream{s}}
	s.tail = after
}

// capturable finds a stream in which a capture can begin.
func (x *Streams) capturable(h gpubackend.Stream) (*Stream, gpubackend.Result) {
	s, result := x.Find(h)
	switch {
	case result != gpubackend.Success:
		return nil, result
	case s.isLegacy():
		return nil, gpubackend.StreamCaptureUnsupported
	case s.capture != nil:
		return nil, gpubackend.IllegalState
	}
	return s, gpubackend.Success
}

// StreamBeginCapture implements gpubackend.Driver. The mode is about threads, of which there is one
// here.
func (x *Streams) StreamBeginCapture(h gpubackend.Stream, _ uint64) gpubackend.Result {
	s, result := x.capturable(h)
	if result != gpubackend.Success {
		return result
	}
	g, result := x.options.Graphs.Make()
	if result == gpubackend.Success {
		x.beginCapture(s, g, nil)
	}
	return result
}

// StreamBeginCaptureToGraph implements gpubackend.Driver.
func (x *Streams) StreamBeginCaptureToGraph(
	h gpubackend.Stream, gh gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, _ uint64,
) gpubackend.Result {
	s, result := x.capturable(h)
	if result != gpubackend.Success {
		return result
	}
	g, result := x.options.Graphs.Find(gh)
	if result != gpubackend.Success {
		return result
	}
	nodes, result := x.options.Graphs.FindNodes(g, after)
	if result != gpubackend.Success {
		return result
	}
	if !graphs.PlainEdges(edges) {
		return gpubackend.NotSupported
	}
	x.beginCapture(s, g, nodes)
	return gpubackend.Success
}

// StreamEndCapture implements gpubackend.Driver.
func (x *Streams) StreamEndCapture(h gpubackend.Stream) (gpubackend.Graph, gpubackend.Result) {
	s, result := x.Find(h)
	if result != gpubackend.Success {
		return 0, result
	}
	c := s.capture
	switch {
	case c == nil:
		return 0, gpubackend.IllegalState
	case c.origin != s:
		return 0, gpubackend.StreamCaptureUnmatched
	case c.bad:
		result = gpubackend.StreamCaptureInvalidated
	case !c.isJoined():
		result = gpubackend.StreamCaptureUnjoined
	}
	x.endCapture(c, result == gpubackend.Success)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Graph(c.graph.Handle), gpubackend.Success
}

// endCapture lets the streams of a capture run again. A graph that isn't wanted is removed, even if
// the capture only added to it.
func (x *Streams) endCapture(c *capture, wanted bool) {
	for _, s := range c.joined {
		s.capture, s.tail = nil, nil
	}
	c.over, c.joined = true, nil
	x.captures--
	c.graph.EndCapture()
	if !wanted {
		x.options.Graphs.Remove(c.graph)
	}
}

// isJoined says whether the last nodes of all streams come before what the origin would record
// next.
func (c *capture) isJoined() bool {
	before := map[*graphs.Node]bool{}
	for work := slices.Clone(c.origin.tail); len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if !before[n] {
			before[n] = true
			work = append(work, n.After...)
		}
	}
	loose := func(n *graphs.Node) bool { return !before[n] }
	return !slices.ContainsFunc(c.left, loose) &&
		!slices.ContainsFunc(c.joined,
			func(s *Stream) bool { return slices.ContainsFunc(s.tail, loose) })
}

// abandon ends the part of a stream that is destroyed in a capture. What it recorded stays, to be
// joined by events. If the capture began in this stream, it ends.
func (x *Streams) abandon(s *Stream) {
	c := s.capture
	if c == nil {
		return
	}
	if c.origin == s {
		x.endCapture(c, false)
		return
	}
	c.left = union(c.left, s.tail)
	c.joined = slices.DeleteFunc(c.joined, func(other *Stream) bool { return other == s })
	s.capture, s.tail = nil, nil
}

// admit says whether work may be put into a stream, as far as captures go: the legacy stream would
// wait for blocking streams, which isn't possible while they record.
func (x *Streams) admit(s *Stream) gpubackend.Result {
	switch {
	case x.captures == 0:
		return gpubackend.Success
	case s.capture != nil && s.capture.bad:
		return gpubackend.StreamCaptureInvalidated
	case !s.isLegacy():
		return gpubackend.Success
	}
	result := gpubackend.Success
	for _, other := range s.group.set.list {
		if other.capture != nil && other.blocking && other.group == s.group {
			other.capture.bad = true
			result = gpubackend.StreamCaptureImplicit
		}
	}
	return result
}

// Refuse makes the capture of a stream invalid, because of a call that can't be recorded.
func (s *Stream) Refuse() gpubackend.Result {
	if s.capture == nil {
		return gpubackend.Success
	}
	s.capture.bad = true
	return gpubackend.StreamCaptureUnsupported
}

// Spoil makes the capture of a stream invalid, because of a call that failed although it could be
// recorded.
func (s *Stream) Spoil() {
	if s.capture != nil {
		s.capture.bad = true
	}
}

// Record makes a node of what would have been queued in a stream that records.
func (x *Streams) Record(s *Stream, what *gpubackend.Node) gpubackend.Result {
	n, result := x.options.Graphs.AddNode(s.ctx, s.capture.graph, s.tail, what)
	if result == gpubackend.Success {
		s.tail = []*graphs.Node{n}
	}
	return result
}

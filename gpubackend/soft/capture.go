// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// capture is a graph that streams are recorded into instead of being run. One that has become
// invalid goes on until it is ended where it began.
type capture struct {
	id     uint64
	graph  *graph
	origin *stream
	joined []*stream // those that record, the origin among them
	left   []*node   // the last nodes of streams that recorded and are gone
	bad    bool
	over   bool
}

// beginCapture lets a stream record into a graph, after nodes of that.
func (d *Device) beginCapture(s *stream, g *graph, after []*node) {
	d.lastCapture++
	d.captures++
	g.capturing++
	s.capture = &capture{id: d.lastCapture, graph: g, origin: s, joined: []*stream{s}}
	s.tail = after
}

// capturable finds a stream in which a capture can begin.
func (d *Device) capturable(h gpubackend.Stream) (*stream, gpubackend.Result) {
	s, result := d.stream(h)
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
func (d *Device) StreamBeginCapture(h gpubackend.Stream, _ uint64) gpubackend.Result {
	s, result := d.capturable(h)
	if result != gpubackend.Success {
		return result
	}
	g, result := d.newGraph()
	if result == gpubackend.Success {
		d.beginCapture(s, g, nil)
	}
	return result
}

// StreamBeginCaptureToGraph implements gpubackend.Driver.
func (d *Device) StreamBeginCaptureToGraph(
	h gpubackend.Stream, gh gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, _ uint64,
) gpubackend.Result {
	s, result := d.capturable(h)
	if result != gpubackend.Success {
		return result
	}
	g, result := d.graph(gh)
	if result != gpubackend.Success {
		return result
	}
	nodes, result := d.nodes(g, after)
	if result != gpubackend.Success {
		return result
	}
	if !plainEdges(edges) {
		return gpubackend.NotSupported
	}
	d.beginCapture(s, g, nodes)
	return gpubackend.Success
}

// StreamEndCapture implements gpubackend.Driver.
func (d *Device) StreamEndCapture(h gpubackend.Stream) (gpubackend.Graph, gpubackend.Result) {
	s, result := d.stream(h)
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
	d.endCapture(c, result == gpubackend.Success)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Graph(c.graph.handle), gpubackend.Success
}

// endCapture lets the streams of a capture run again. Unless its graph is wanted, it goes, also when
// the capture only added to it.
func (d *Device) endCapture(c *capture, wanted bool) {
	for _, s := range c.joined {
		s.capture, s.tail = nil, nil
	}
	c.over, c.joined = true, nil
	d.captures--
	c.graph.capturing--
	if !wanted {
		d.dropGraph(c.graph)
	}
}

// isJoined says whether the last nodes of all streams come before what the origin would record
// next.
func (c *capture) isJoined() bool {
	before := map[*node]bool{}
	for work := slices.Clone(c.origin.tail); len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if !before[n] {
			before[n] = true
			work = append(work, n.after...)
		}
	}
	loose := func(n *node) bool { return !before[n] }
	return !slices.ContainsFunc(c.left, loose) &&
		!slices.ContainsFunc(c.joined, func(s *stream) bool { return slices.ContainsFunc(s.tail, loose) })
}

// abandon ends a stream's part in a capture, because the stream ends. What it recorded stays, to be
// joined by events. A capture is over with the stream in which it began.
func (d *Device) abandon(s *stream) {
	c := s.capture
	if c == nil {
		return
	}
	if c.origin == s {
		d.endCapture(c, false)
		return
	}
	c.left = union(c.left, s.tail)
	c.joined = slices.DeleteFunc(c.joined, func(other *stream) bool { return other == s })
	s.capture, s.tail = nil, nil
}

// admit says whether work may be put into a stream, as far as captures go: the legacy stream would
// wait for blocking streams, which can't be while they record.
func (d *Device) admit(s *stream) gpubackend.Result {
	switch {
	case d.captures == 0:
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

// refuse makes the capture of a stream that records invalid, because of a call that can't be
// recorded.
func (s *stream) refuse() gpubackend.Result {
	if s.capture == nil {
		return gpubackend.Success
	}
	s.capture.bad = true
	return gpubackend.StreamCaptureUnsupported
}

// spoil makes the capture of a stream invalid, because of a call that failed although it could be recorded.
func (s *stream) spoil() {
	if s.capture != nil {
		s.capture.bad = true
	}
}

// record makes a node of what would have been queued in a stream that records.
func (d *Device) record(s *stream, what *gpubackend.Node) gpubackend.Result {
	n, result := d.addNode(s.ctx, s.capture.graph, s.tail, what)
	if result == gpubackend.Success {
		s.tail = []*node{n}
	}
	return result
}

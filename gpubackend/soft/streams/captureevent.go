// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// recordCaptured records an event in a stream that records: as a node, or as a point of the
// capture, at which other streams can join it.
func (x *Streams) recordCaptured(s *Stream, h gpubackend.Event, flags uint64) gpubackend.Result {
	if flags == ExternalFlag {
		return x.Record(s, &gpubackend.Node{Type: gpubackend.NodeEventRecord, Event: h})
	}
	e, result := x.event(h)
	if result == gpubackend.Success {
		e.capture, e.nodes = s.capture, slices.Clone(s.tail)
	}
	return result
}

// waitCaptured makes a stream wait for an event where either of them belongs to a capture.
func (x *Streams) waitCaptured(s *Stream, h gpubackend.Event, flags uint64) gpubackend.Result {
	e, result := x.event(h)
	switch {
	case result != gpubackend.Success:
		return result
	case flags == ExternalFlag && s.capture != nil:
		return x.Record(s, &gpubackend.Node{Type: gpubackend.NodeEventWait, Event: h})
	case flags != 0 && (e.capture.over || e.capture.bad):
		return gpubackend.InvalidValue
	case flags != 0:
		return gpubackend.IllegalState
	case e.capture != nil:
		return s.join(e)
	case e.record == nil:
		return gpubackend.Success // no work to wait for
	}
	s.capture.bad = true
	return gpubackend.StreamCaptureIsolation
}

// join makes a stream record after what an event has captured.
func (s *Stream) join(e *event) gpubackend.Result {
	c := e.capture
	switch {
	case c.over || c.bad:
		s.Spoil()
		return gpubackend.InvalidValue
	case s.isLegacy():
		c.bad = true
		return gpubackend.StreamCaptureUnsupported
	case s.capture == nil:
		s.capture, s.tail = c, nil
		c.joined = append(c.joined, s)
	case s.capture != c:
		s.capture.bad, c.bad = true, true
		return gpubackend.StreamCaptureMerge
	}
	s.tail = union(s.tail, e.nodes)
	return gpubackend.Success
}

// refuse is the result of asking whether an event is done that stands for a point of a capture.
func (e *event) refuse() gpubackend.Result {
	switch c := e.capture; {
	case c == nil:
		return gpubackend.Success
	case c.over || c.bad:
		return gpubackend.InvalidValue
	default:
		c.bad = true
		return gpubackend.CapturedEvent
	}
}

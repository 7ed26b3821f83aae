// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// recordCaptured records an event in a stream that records: as a node, or as a point of the capture, at which other
// streams can join it.
func (d *Device) recordCaptured(s *stream, h gpubackend.Event, flags uint64) gpubackend.Result {
	if flags == externalFlag {
		return d.record(s, &gpubackend.Node{Type: gpubackend.NodeEventRecord, Event: h})
	}
	e, result := d.event(h)
	if result == gpubackend.Success {
		e.capture, e.nodes = s.capture, slices.Clone(s.tail)
	}
	return result
}

// waitCaptured makes a stream wait for an event where either of them belongs to a capture.
func (d *Device) waitCaptured(s *stream, h gpubackend.Event, flags uint64) gpubackend.Result {
	e, result := d.event(h)
	switch {
	case result != gpubackend.Success:
		return result
	case flags == externalFlag && s.capture != nil:
		return d.record(s, &gpubackend.Node{Type: gpubackend.NodeEventWait, Event: h})
	case flags != 0:
		return gpubackend.InvalidValue
	case e.capture != nil:
		return s.join(e)
	case e.record == nil:
		return gpubackend.Success // no work to wait for
	}
	s.capture.bad = true
	return gpubackend.StreamCaptureIsolation
}

// join makes a stream record after what an event has captured.
func (s *stream) join(e *event) gpubackend.Result {
	c := e.capture
	switch {
	case c.over || c.bad:
		s.spoil()
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

// refuse is what asking for the completion of an event means that stands for a point of a capture.
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

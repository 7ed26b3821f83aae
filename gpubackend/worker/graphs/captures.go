// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// captures are the graphs of the captures under way, by the streams where they began. The driver
// destroys the graph of a capture that fails, even one of the guest's: the guest's handle must go
// with it.
type captures map[gpubackend.Stream]gpubackend.Graph

func (s *Graphs) beginCapture(
	c *call.Call, a command.StreamBeginCapture, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	return s.begin(c, a.HStream, run)
}

func (s *Graphs) beginCaptureToGraph(
	c *call.Call, a command.StreamBeginCaptureToGraph, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	return s.begin(c, a.HStream, run)
}

// begin begins a capture and notes its graph.
func (s *Graphs) begin(
	c *call.Call, handle uint64, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	result := s.bound(c, run)
	if result != gpubackend.Success {
		return result
	}
	stream, _ := s.Streams.Find(c, handle)
	if _, _, g, _, r := s.Driver.StreamCaptureInfo(stream, nil); r == gpubackend.Success && g != 0 {
		s.captures[stream] = g
	}
	return result
}

// endCapture ends a capture, if there is one that may be ended here.
func (s *Graphs) endCapture(
	c *call.Call, a command.StreamEndCapture, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	stream, _ := s.Streams.Find(c, a.HStream)
	result := run(c)
	switch result {
	case gpubackend.IllegalState, gpubackend.StreamCaptureUnmatched,
		gpubackend.StreamCaptureImplicit, gpubackend.InvalidHandle:
	case gpubackend.Success:
		delete(s.captures, stream)
	default:
		s.loseCapture(stream)
	}
	return result
}

// endStream ends a stream, and the capture that began in it.
func (s *Graphs) endStream(
	c *call.Call, a command.StreamDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	stream, _ := s.Streams.Find(c, a.HStream)
	result := run(c)
	if result == gpubackend.Success {
		s.loseCapture(stream)
	}
	return result
}

// loseCapture forgets the capture that began in a stream, if there is one, and its graph.
func (s *Graphs) loseCapture(stream gpubackend.Stream) {
	g, ok := s.captures[stream]
	if !ok {
		return
	}
	delete(s.captures, stream)
	if h := s.graph[g]; h != 0 {
		s.ForgetGraph(h)
	}
}

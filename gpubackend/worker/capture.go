// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// captures are the graphs of the captures that go on, by the streams where they began. The driver destroys the graph of
// a capture that fails, be it its own or the guest's: the guest's handle must go with it.
type captures map[gpubackend.Stream]gpubackend.Graph

// beginCapture begins a capture and notes its graph.
func (w *Worker) beginCapture(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := w.boundGraphs(c, run)
	if result != gpubackend.Success {
		return result
	}
	s, _ := w.streams.Find(c, c.Word(0))
	if _, _, g, _, r := w.driver.StreamCaptureInfo(s, nil); r == gpubackend.Success && g != 0 {
		if w.captures == nil {
			w.captures = captures{}
		}
		w.captures[s] = g
	}
	return result
}

// endCapture ends one, unless there is none that may be ended here.
func (w *Worker) endCapture(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	s, _ := w.streams.Find(c, c.Word(0))
	result := run(c)
	switch result {
	case gpubackend.IllegalState, gpubackend.StreamCaptureUnmatched, gpubackend.StreamCaptureImplicit, gpubackend.InvalidHandle:
	case gpubackend.Success:
		delete(w.captures, s)
	default:
		w.loseCapture(s)
	}
	return result
}

// loseCapture forgets the graph of the capture that began in a stream, if there is one, and the capture.
func (w *Worker) loseCapture(s gpubackend.Stream) {
	g, ok := w.captures[s]
	if !ok {
		return
	}
	delete(w.captures, s)
	if h := w.graphs.graph[g]; h != 0 {
		w.forgetGraph(h)
	}
}

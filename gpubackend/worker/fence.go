// SPDX-License-Identifier: Apache-2.0

package worker

import "github.com/paracuda/paracuda/gpubackend"

// fence is a point in a stream that can be asked for: an event of the worker's own.
type fence struct {
	context uint64
	event   gpubackend.Event
}

// eventNoTiming is CU_EVENT_DISABLE_TIMING.
const eventNoTiming = 2

// fences are events that nobody uses at the moment, by context.
type fences struct{ free map[uint64][]gpubackend.Event }

// fence marks the end of what is queued in a stream of the current context.
func (w *Worker) fence(s gpubackend.Stream) (fence, gpubackend.Result) {
	f := fence{context: w.home(w.context)}
	free := w.fences.free[f.context]
	if n := len(free); n > 0 {
		f.event = free[n-1]
		w.fences.free[f.context] = free[:n-1]
	} else {
		e, result := w.driver.EventCreate(eventNoTiming)
		if result != gpubackend.Success {
			return f, result
		}
		f.event = e
	}
	result := w.driver.EventRecordWithFlags(f.event, s, 0)
	if result != gpubackend.Success {
		w.dropFence(f)
	}
	return f, result
}

// passed asks whether the stream has got to a fence. Any answer but NotReady ends the fence's life.
func (w *Worker) passed(f fence) gpubackend.Result {
	if result := w.setContext(f.context, true); result != gpubackend.Success {
		return result
	}
	result := w.driver.EventQuery(f.event)
	if result != gpubackend.NotReady {
		w.dropFence(f)
	}
	return result
}

func (w *Worker) dropFence(f fence) {
	if w.fences.free == nil {
		w.fences.free = map[uint64][]gpubackend.Event{}
	}
	w.fences.free[f.context] = append(w.fences.free[f.context], f.event)
}

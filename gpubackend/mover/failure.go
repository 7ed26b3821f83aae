// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
)

// A GPU that is lost, or whose context has ended, refuses its own copies. The engine fails when
// none is left: then the mover ends, and another one may find them well.

// noteFailure notes an error after which a GPU copies nothing any more, and says whether it is one.
func (e *cudaEngine) noteFailure(l *gpuJobs, r gpubackend.Result) bool {
	if !r.Sticky() && !r.OfGPU() {
		return false
	}
	if l.failed != gpubackend.Success {
		return true
	}
	l.failed, e.suspect = r, true
	e.warn(fmt.Sprintf("GPU %d has failed: its copies are refused", l.number), r.Err())
	if e.working() == nil {
		e.end(r)
	}
	return true
}

// askOthers finds out whether a failure is that of other GPUs, too: some errors end all contexts of
// a process.
func (e *cudaEngine) askOthers() {
	e.suspect = false
	for _, l := range e.gpus {
		if l == nil || l.failed != gpubackend.Success {
			continue
		}
		r := e.device.SetCurrent(l.context)
		if r == gpubackend.Success {
			r = e.device.StreamQuery(l.flights[0].stream)
		}
		e.noteFailure(l, r)
	}
}

// end ends the engine, whatever GPUs still work.
func (e *cudaEngine) end(r gpubackend.Result) {
	for _, l := range e.gpus {
		if l != nil && l.failed == gpubackend.Success {
			l.failed = r
		}
	}
	if e.failed == nil {
		e.failed = fmt.Errorf("the mover's contexts: %w", r.Err())
	}
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"runtime/debug"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

// runtimeBytes is what the process's Go heap has beside what is counted.
const runtimeBytes = 256 << 20

// limitHost sets what the guest process may make this one take. Garbage is collected sooner near
// the limit, so that it doesn't come on top: the heap would double otherwise.
func limitHost(host *budget.Budget, bytes uint64) {
	host.SetLimit(bytes)
	debug.SetMemoryLimit(int64(min(bytes, math.MaxInt64-runtimeBytes) + runtimeBytes))
}

// takeBuffer counts a copy of an argument, until its command has been executed.
func (w *Worker) takeBuffer(bytes uint64) gpubackend.Result {
	if w.host.Take(bytes) != nil {
		return gpubackend.OutOfMemory
	}
	w.buffers += bytes
	return gpubackend.Success
}

func (w *Worker) giveBuffers() {
	if w.buffers > 0 {
		w.host.Give(w.buffers)
		w.buffers = 0
	}
}

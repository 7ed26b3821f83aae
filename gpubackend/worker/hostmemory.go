// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"runtime/debug"

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

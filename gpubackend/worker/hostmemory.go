// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"runtime/debug"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// runtimeBytes is what the process's Go heap has in addition to what is counted.
const runtimeBytes = 256 << 20

// limitHost bounds what the guest process may make this one take. Near the limit garbage is
// collected sooner: otherwise the heap could grow to twice that.
func limitHost(host *budget.Budget, bytes uint64) {
	host.SetLimit(bytes)
	debug.SetMemoryLimit(int64(min(bytes, math.MaxInt64-runtimeBytes) + runtimeBytes))
}

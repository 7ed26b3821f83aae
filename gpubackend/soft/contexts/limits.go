// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
)

// Limits of a context, by CUlimit.
const (
	// limitCount is how many limits a context has values for.
	limitCount = cudaabi.LimitShmemSize
	// lastLimit is the last number that CUDA 13 knows.
	lastLimit = cudaabi.LimitCigShmemFallbackEnabled
)

var defaultLimits = [limitCount]uint64{
	cudaabi.LimitStackSize: 1024, cudaabi.LimitPrintfFIFOSize: output.DefaultBytes,
	cudaabi.LimitMallocHeapSize: 8 << 20, cudaabi.LimitDevRuntimePendingLaunchCount: 2048,
	cudaabi.LimitMaxL2FetchGranularity: 64,
}

// Bounds that a value is cut to.
const (
	maxStack   = cudaabi.MaxStackBytes
	minPrintf  = 4 << 10
	maxL2Fetch = 128
)

// HeapSize is how large the heap of the context's kernels is to be.
func (c *Context) HeapSize() uint64 { return c.limits[cudaabi.LimitMallocHeapSize] }

// FixHeap notes that there is a heap: its size can't be changed any more.
func (c *Context) FixHeap() { c.heapFixed = true }

// CtxGetLimit implements gpubackend.Driver.
func (x *Contexts) CtxGetLimit(limit uint64) (uint64, gpubackend.Result) {
	c, result := x.Current()
	if result == gpubackend.Success {
		result = supportedLimit(limit)
	}
	if result != gpubackend.Success {
		return 0, result
	}
	return c.limits[limit], gpubackend.Success
}

func supportedLimit(limit uint64) gpubackend.Result {
	switch {
	case limit > lastLimit:
		return gpubackend.InvalidValue
	case limit == cudaabi.LimitDevRuntimeSyncDepth || limit >= cudaabi.LimitShmemSize:
		// devices from compute capability 9.0 have no synchronisation depth
		return gpubackend.UnsupportedLimit
	}
	return gpubackend.Success
}

// CtxSetLimit implements gpubackend.Driver.
func (x *Contexts) CtxSetLimit(limit, value uint64) gpubackend.Result {
	c, result := x.Current()
	if result == gpubackend.Success {
		result = supportedLimit(limit)
	}
	if result != gpubackend.Success {
		return result
	}
	switch limit {
	case cudaabi.LimitStackSize:
		value = min((value+15)&^15, maxStack)
	case cudaabi.LimitPrintfFIFOSize:
		value = max(value, minPrintf)
		if value > x.options.Memory {
			return gpubackend.OutOfMemory
		}
		if result := x.options.Output.Resize(int(value)); result != gpubackend.Success {
			c.limits[limit] = defaultLimits[limit]
			return result
		}
	case cudaabi.LimitMallocHeapSize:
		if c.heapFixed {
			return gpubackend.InvalidValue // kernels use it already
		}
		if value > x.options.Memory {
			return gpubackend.OutOfMemory
		}
	case cudaabi.LimitMaxL2FetchGranularity:
		value = min(value, maxL2Fetch)
	case cudaabi.LimitPersistingL2CacheSize:
		value = 0 // there is none to set aside
	}
	c.limits[limit] = value
	return gpubackend.Success
}

// CtxGetCacheConfig implements gpubackend.Driver. There is nothing to configure; the choice is
// kept.
func (x *Contexts) CtxGetCacheConfig() (uint64, gpubackend.Result) {
	c, result := x.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	return c.cacheConfig, gpubackend.Success
}

// CtxSetCacheConfig implements gpubackend.Driver.
func (x *Contexts) CtxSetCacheConfig(config uint64) gpubackend.Result {
	c, result := x.Current()
	if result != gpubackend.Success {
		return result
	}
	if config > chip.LastCacheConfig {
		return gpubackend.InvalidValue
	}
	c.cacheConfig = config
	return gpubackend.Success
}

// CtxResetPersistingL2Cache implements gpubackend.Driver. No cache line persists here.
func (x *Contexts) CtxResetPersistingL2Cache() gpubackend.Result {
	_, result := x.Current()
	return result
}

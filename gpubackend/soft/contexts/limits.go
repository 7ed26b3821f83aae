// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
)

// Limits of a context, by CUlimit.
const (
	LimitStack           = 0
	LimitPrintf          = 1
	LimitHeap            = 2
	limitSyncDepth       = 3
	limitPendingLaunches = 4
	limitL2Fetch         = 5
	limitL2Persisting    = 6
	limitShared          = 7
	limitCount           = 7
	// lastLimit is the last number that CUDA 13 knows.
	lastLimit = 9
)

var defaultLimits = [limitCount]uint64{
	LimitStack: 1024, LimitPrintf: output.DefaultBytes, LimitHeap: 8 << 20, limitPendingLaunches: 2048, limitL2Fetch: 64,
}

// Bounds that a value is cut to.
const (
	maxStack   = 512 << 10
	minPrintf  = 4 << 10
	maxL2Fetch = 128
)

// HeapSize is how large the heap of the context's kernels is to be.
func (c *Context) HeapSize() uint64 { return c.limits[LimitHeap] }

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
	case limit == limitSyncDepth || limit >= limitShared:
		return gpubackend.UnsupportedLimit // devices from compute capability 9.0 have no synchronisation depth
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
	case LimitStack:
		value = min((value+15)&^15, maxStack)
	case LimitPrintf:
		value = max(value, minPrintf)
		if value > x.options.Memory {
			return gpubackend.OutOfMemory
		}
		if result := x.options.Output.Resize(int(value)); result != gpubackend.Success {
			c.limits[limit] = defaultLimits[limit]
			return result
		}
	case LimitHeap:
		if c.heapFixed {
			return gpubackend.InvalidValue // kernels use it already
		}
		if value > x.options.Memory {
			return gpubackend.OutOfMemory
		}
	case limitL2Fetch:
		value = min(value, maxL2Fetch)
	case limitL2Persisting:
		value = 0 // there is none to set aside
	}
	c.limits[limit] = value
	return gpubackend.Success
}

// CtxGetCacheConfig implements gpubackend.Driver. There is nothing to configure; the choice is kept.
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

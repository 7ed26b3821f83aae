// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// Limits of a context, by CUlimit.
const (
	limitStack           = 0
	limitPrintf          = 1
	limitHeap            = 2
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
	limitStack: 1024, limitPrintf: 1 << 20, limitHeap: 8 << 20, limitPendingLaunches: 2048, limitL2Fetch: 64,
}

// Bounds that a value is cut to.
const (
	maxStack   = 512 << 10
	minPrintf  = 4 << 10
	maxL2Fetch = 128
)

// CtxGetLimit implements gpubackend.Driver.
func (d *Device) CtxGetLimit(limit uint64) (uint64, gpubackend.Result) {
	c, result := d.context()
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
func (d *Device) CtxSetLimit(limit, value uint64) gpubackend.Result {
	c, result := d.context()
	if result == gpubackend.Success {
		result = supportedLimit(limit)
	}
	if result != gpubackend.Success {
		return result
	}
	switch limit {
	case limitStack:
		value = min((value+15)&^15, maxStack)
	case limitPrintf:
		value = max(value, minPrintf)
		if value > d.options.Memory {
			return gpubackend.OutOfMemory
		}
		if result := d.output.resize(int(value)); result != gpubackend.Success {
			c.limits[limit] = defaultLimits[limit]
			return result
		}
	case limitHeap:
		if c.heap != nil {
			return gpubackend.InvalidValue // kernels use it already
		}
		if value > d.options.Memory {
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

// Caches. There is nothing to configure; the choice is kept.
const lastCacheConfig = 3

// CtxGetCacheConfig implements gpubackend.Driver.
func (d *Device) CtxGetCacheConfig() (uint64, gpubackend.Result) {
	c, result := d.context()
	if result != gpubackend.Success {
		return 0, result
	}
	return c.cacheConfig, gpubackend.Success
}

// CtxSetCacheConfig implements gpubackend.Driver.
func (d *Device) CtxSetCacheConfig(config uint64) gpubackend.Result {
	c, result := d.context()
	if result != gpubackend.Success {
		return result
	}
	if config > lastCacheConfig {
		return gpubackend.InvalidValue
	}
	c.cacheConfig = config
	return gpubackend.Success
}

// CtxResetPersistingL2Cache implements gpubackend.Driver. No cache line persists here.
func (d *Device) CtxResetPersistingL2Cache() gpubackend.Result {
	_, result := d.context()
	return result
}

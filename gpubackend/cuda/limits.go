// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend"
)

// Limits of a context by which the driver takes device memory (CUlimit).
const (
	limitStack  = 0 // of each thread that the GPU can have at a time
	limitPrintf = 1
	limitHeap   = 2 // taken when a kernel first uses it, and counted when it is set
)

// maxStack is what the driver cuts a thread's stack to.
const maxStack = 512 << 10

// contextLimit is a limit of a context.
type contextLimit struct {
	context gpubackend.Context
	limit   uint64
}

// limitCharge is what a limit counts for.
type limitCharge struct {
	gpu   int
	bytes uint64
}

// CtxSetLimit counts what the driver takes for a limit beyond what a context has at the start, which counts as little as the
// rest of a context does. What is counted is what the driver has made of the value.
func (d *Device) CtxSetLimit(limit, value uint64) gpubackend.Result {
	if d.options.MemoryLimit == 0 || d.state == nil || limit > limitHeap {
		return d.calls.CtxSetLimit(limit, value)
	}
	key := contextLimit{d.current, limit}
	before := d.limits[key]
	if limit == limitStack {
		value = min(value, maxStack)
	}
	if !d.chargeLimit(key, value) && !(d.reclaimAll() && d.chargeLimit(key, value)) {
		return gpubackend.OutOfMemory
	}
	r := d.calls.CtxSetLimit(limit, value)
	if r != gpubackend.Success {
		d.rechargeLimit(key, before.bytes)
		return r
	}
	if got, r := d.calls.CtxGetLimit(limit); r == gpubackend.Success {
		if bytes, ok := d.limitBytes(key, got); ok {
			d.rechargeLimit(key, bytes)
		}
	}
	return r
}

// limitBytes is what a value counts for.
func (d *Device) limitBytes(key contextLimit, value uint64) (uint64, bool) {
	first, each := uint64(0), uint64(1)
	switch key.limit {
	case limitStack:
		first, each = 1<<10, d.gpus[d.state.gpu].threads
	case limitPrintf:
		first = 1 << 20
	case limitHeap:
		first = 8 << 20
	}
	over, bytes := bits.Mul64(value-min(value, first), each)
	return bytes, over == 0
}

// chargeLimit counts a value if there is room for it.
func (d *Device) chargeLimit(key contextLimit, value uint64) bool {
	bytes, ok := d.limitBytes(key, value)
	if !ok {
		return false
	}
	if had := d.limits[key].bytes; bytes > had {
		heap := d.gpus[d.state.gpu].heap
		if heap.Charge(bytes-had) != nil {
			return false
		}
		heap.Uncharge(bytes - had)
	}
	d.rechargeLimit(key, bytes)
	return true
}

func (d *Device) rechargeLimit(key contextLimit, bytes uint64) {
	if d.limits == nil {
		d.limits = map[contextLimit]limitCharge{}
	}
	d.gpus[d.state.gpu].heap.Recharge(d.limits[key].bytes, bytes)
	d.limits[key] = limitCharge{d.state.gpu, bytes}
}

// unchargeLimits counts the limits of a context that is gone no more.
func (d *Device) unchargeLimits(c gpubackend.Context) {
	for key, x := range d.limits {
		if key.context == c {
			d.gpus[x.gpu].heap.Uncharge(x.bytes)
			delete(d.limits, key)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package limits counts the device memory that the driver takes for the limits of contexts
// (cuCtxSetLimit): stacks, the heap of kernels, the buffer of printf. Where memory isn't limited,
// nothing counts. Values come from the guest as they are.
package limits

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// maxStack is what the driver cuts a thread's stack to.
const maxStack = cudaabi.MaxStackBytes

// contextLimit is a limit of a context.
type contextLimit struct {
	context *contexts.Context
	limit   uint64
}

// limitCharge is what a limit counts for.
type limitCharge struct {
	gpu   int
	bytes uint64
}

// Calls are the functions of the driver that are called here.
type Calls interface {
	CtxSetLimit(limit, value uint64) gpubackend.Result
	CtxGetLimit(limit uint64) (uint64, gpubackend.Result)
}

// Memory is what the limits count for.
type Memory interface {
	Limit() uint64
	Reclaim() bool
	HasRoomNow(gpu int, bytes uint64) bool
	Recharge(gpu int, had, now uint64)
	Uncharge(gpu int, bytes uint64)
}

// Limits has the limits of all contexts.
type Limits struct {
	calls    Calls
	contexts *contexts.Contexts
	gpus     *gpus.List
	memory   Memory
	charges  map[contextLimit]limitCharge
}

// New returns limits with the values that contexts begin with.
func New(calls Calls, x *contexts.Contexts, list *gpus.List, memory Memory) *Limits {
	return &Limits{
		calls: calls, contexts: x, gpus: list, memory: memory,
		charges: make(map[contextLimit]limitCharge),
	}
}

// Counted is how many limits count.
func (x *Limits) Counted() int { return len(x.charges) }

// CtxSetLimit counts what the driver takes for a limit beyond what a context has at its start,
// which counts with the context. It counts the value that the driver has set.
func (x *Limits) CtxSetLimit(limit, value uint64) gpubackend.Result {
	c := x.contexts.Current()
	if x.memory.Limit() == 0 || c == nil || limit > cudaabi.LimitMallocHeapSize {
		return x.calls.CtxSetLimit(limit, value)
	}
	key := contextLimit{c, limit}
	before := x.charges[key]
	if limit == cudaabi.LimitStackSize {
		value = min(value, maxStack)
	}
	if !x.charge(key, value) && !(x.memory.Reclaim() && x.charge(key, value)) {
		return gpubackend.OutOfMemory
	}
	r := x.calls.CtxSetLimit(limit, value)
	if r != gpubackend.Success {
		x.recharge(key, before.bytes)
		return r
	}
	if got, r := x.calls.CtxGetLimit(limit); r == gpubackend.Success {
		if bytes, ok := x.bytesOf(key, got); ok {
			x.recharge(key, bytes)
		}
	}
	return r
}

// bytesOf is what a value counts for.
func (x *Limits) bytesOf(key contextLimit, value uint64) (uint64, bool) {
	first, each := uint64(0), uint64(1)
	switch key.limit {
	case cudaabi.LimitStackSize: // of each thread that the GPU can have at a time
		first, each = 1<<10, x.gpus.At(key.context.GPU).Threads
	case cudaabi.LimitPrintfFIFOSize:
		first = 1 << 20
	case cudaabi.LimitMallocHeapSize: // taken at its first use, and counted when it is set
		first = 8 << 20
	}
	over, bytes := bits.Mul64(value-min(value, first), each)
	return bytes, over == 0
}

// charge counts a value if there is room for it.
func (x *Limits) charge(key contextLimit, value uint64) bool {
	bytes, ok := x.bytesOf(key, value)
	if !ok {
		return false
	}
	had := x.charges[key].bytes
	if bytes > had && !x.memory.HasRoomNow(key.context.GPU, bytes-had) {
		return false
	}
	x.recharge(key, bytes)
	return true
}

func (x *Limits) recharge(key contextLimit, bytes uint64) {
	gpu := key.context.GPU
	x.memory.Recharge(gpu, x.charges[key].bytes, bytes)
	x.charges[key] = limitCharge{gpu, bytes}
}

// Ended takes the limits of a context that has ended out of the count.
func (x *Limits) Ended(c *contexts.Context) {
	for key, charge := range x.charges {
		if key.context == c {
			x.memory.Uncharge(charge.gpu, charge.bytes)
			delete(x.charges, key)
		}
	}
}

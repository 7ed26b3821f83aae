// SPDX-License-Identifier: Apache-2.0

package history

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// A device's primary context keeps its handle when it ends, and begins anew: when it is reset, or
// retained again after its release. What was set of it ends with it, and so do its objects, which
// are no longer in the table. One that is released is released again when the others are made.

// lasting are the commands with which something is set that doesn't end with the context.
var lasting = map[uint64]bool{
	uint64(gpubackend.OpKernelSetAttribute):      true,
	uint64(gpubackend.OpKernelSetCacheConfig):    true,
	uint64(gpubackend.OpDevicePrimaryCtxRelease): true,
}

// releaseOf is the key of the release of a primary context.
func releaseOf(context uint64) journal.Key {
	return journal.Key{uint64(gpubackend.OpDevicePrimaryCtxRelease), 0, context}
}

// retained notes that a primary context was retained once more.
func (h *History) retained(context uint64) {
	h.users[context]++
	h.journal.Unset(releaseOf(context))
}

// reset is around the command that resets a device's primary context.
func (h *History) reset(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	context, _ := h.Primary(c.Word(0))
	result := run(c)
	if result == gpubackend.Success {
		h.ended(context)
	}
	return result
}

// release is around the command that releases a device's primary context. The guest's library
// counts by itself, so usually that ends the context. A program that has retained it again after a
// reset has retained it twice: then it goes on on the device, without what it had.
func (h *History) release(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	context, _ := h.Primary(c.Word(0))
	e, result, err := h.taker.Run(c, run)
	switch {
	case result != gpubackend.Success:
		return result
	case err != nil:
		h.journal.Refuse(err.Error())
	case h.users[context] != 1:
		h.journal.Refuse("it has released a context that it had reset")
	default:
		h.ended(context)
		e.Context = 0
		h.journal.Set(releaseOf(context), e, []uint64{context})
	}
	if h.users[context] > 0 {
		h.users[context]--
	}
	return result
}

// ended drops what ended with a primary context.
func (h *History) ended(context uint64) {
	h.journal.End(context, func(key journal.Key) bool { return lasting[key[0]] })
}

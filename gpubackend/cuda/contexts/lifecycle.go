// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
)

// DevicePrimaryCtxRetain keeps a record of the context.
func (x *Contexts) DevicePrimaryCtxRetain(dev uint64) (gpubackend.Context, gpubackend.Result) {
	i, ok := x.gpus.Find(dev)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	if _, ok := x.ahead[i]; !ok {
		x.cool()
	}
	var counts uint64
	if c := x.Primary(i); c == nil || c.retained == 0 {
		if counts, ok = x.take(i); !ok {
			return 0, gpubackend.OutOfMemory
		}
	}
	h, r := x.retain(i)
	if r != gpubackend.Success {
		x.hooks.Give(i, counts)
		return 0, r
	}
	c := x.record(h, i)
	c.primary = true
	c.counts += counts
	if c.retained++; c.retained > 1 {
		return h, r
	}
	if x.current == h {
		// The handle stayed current while nobody retained the context, and now names a new one.
		r = x.calls.CtxSetCurrent(h)
	}
	x.hooks.Began(c)
	if r == gpubackend.Success {
		x.hooks.Ready(c)
	}
	return h, r
}

// DevicePrimaryCtxRelease forgets the context with its last reference.
func (x *Contexts) DevicePrimaryCtxRelease(dev uint64) gpubackend.Result {
	x.hooks.Ending()
	i, ok := x.gpus.Find(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	c := x.Primary(i)
	if c == nil || c.retained == 0 {
		return gpubackend.InvalidContext
	}
	if c.retained == 1 {
		x.leave(c)
	}
	r := x.calls.DevicePrimaryCtxRelease(x.gpus.At(i).Native)
	if r == gpubackend.Success {
		if c.retained--; c.retained == 0 {
			x.forget(c)
		}
	}
	return r
}

// DevicePrimaryCtxReset ends what the context holds; its references stay.
func (x *Contexts) DevicePrimaryCtxReset(dev uint64) gpubackend.Result {
	x.hooks.Ending()
	i, ok := x.gpus.Find(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	x.cool()
	c := x.Primary(i)
	if c != nil {
		x.leave(c)
	}
	r := x.calls.DevicePrimaryCtxReset(x.gpus.At(i).Native)
	if r == gpubackend.Success && c != nil {
		x.forget(c)
		if c.retained > 0 {
			x.hooks.Began(c)
		}
		if x.current == c.Handle {
			x.calls.CtxSetCurrent(c.Handle)
		}
		if c.retained > 0 {
			x.hooks.Ready(c)
		}
	}
	return r
}

// CtxCreate keeps a record of the context. Creating one makes it the thread's current one, which is
// undone.
func (x *Contexts) CtxCreate(flags, dev uint64) (gpubackend.Context, gpubackend.Result) {
	i, ok := x.gpus.Find(dev)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	x.cool()
	counts, ok := x.take(i)
	if !ok {
		return 0, gpubackend.OutOfMemory
	}
	h, r := x.calls.CtxCreate(flags, x.gpus.At(i).Native)
	if r != gpubackend.Success {
		x.hooks.Give(i, counts)
		return 0, r
	}
	c := x.record(h, i)
	c.counts = counts
	x.hooks.Began(c)
	if r = x.calls.CtxPopCurrent(); r == gpubackend.Success {
		x.hooks.Ready(c)
	}
	return h, r
}

// CtxDestroy forgets the context.
func (x *Contexts) CtxDestroy(h gpubackend.Context) gpubackend.Result {
	x.hooks.Ending()
	c := x.table[h]
	if c == nil || c.primary || c.Base != nil {
		return gpubackend.InvalidContext
	}
	x.leave(c)
	if x.current == h {
		x.SetCurrent(0)
	}
	r := x.calls.CtxDestroy(h)
	x.forget(c)
	return r
}

func (x *Contexts) record(h gpubackend.Context, gpu int) *Context {
	c := x.table[h]
	if c == nil {
		c = &Context{Handle: h, GPU: gpu}
		x.table[h] = c
	}
	return c
}

// Primary is the record of a GPU's primary context; nil before the first reference.
func (x *Contexts) Primary(gpu int) *Context {
	for _, c := range x.table {
		if c.GPU == gpu && c.primary {
			return c
		}
	}
	return nil
}

// leave makes sure that nothing uses the memory of a context that ends.
func (x *Contexts) leave(c *Context) {
	x.In(c, func() gpubackend.Result {
		if !x.hooks.Holds(c) {
			return gpubackend.Success
		}
		return x.calls.CtxSynchronize()
	})
}

// forget removes a context that has ended, and tells the other rooms.
func (x *Contexts) forget(c *Context) {
	x.peers.End(c) // the driver has done so for its own allocations
	x.hooks.Ended(c)
	if !c.primary || c.retained == 0 {
		x.hooks.Give(c.GPU, c.counts)
		c.counts = 0
	}
	if !c.primary {
		delete(x.table, c.Handle)
		return
	}
	c.Work, c.dead = activity.Activity{}, gpubackend.Success
}

// take counts a context that is about to begin, and what will be in it from the start. WarmUp's
// context, if there is one, is counted already.
func (x *Contexts) take(gpu int) (counts uint64, ok bool) {
	if !x.hooks.Room(gpu) {
		return 0, false
	}
	if a, ok := x.ahead[gpu]; ok {
		return a.counts, true
	}
	return x.hooks.Take(gpu)
}

// WarmUp takes a reference to a GPU's primary context ahead of use, which takes long the first
// time.
func (x *Contexts) WarmUp(gpu int) gpubackend.Result {
	counts, ok := x.hooks.Take(gpu)
	if !ok {
		return gpubackend.OutOfMemory
	}
	h, r := x.calls.DevicePrimaryCtxRetain(x.gpus.At(gpu).Native)
	if r != gpubackend.Success {
		x.hooks.Give(gpu, counts)
		return r
	}
	x.ahead[gpu] = ahead{h, counts}
	return r
}

// retain takes a reference to a GPU's primary context, or hands out WarmUp's.
func (x *Contexts) retain(gpu int) (gpubackend.Context, gpubackend.Result) {
	if a, ok := x.ahead[gpu]; ok {
		delete(x.ahead, gpu)
		return a.handle, gpubackend.Success
	}
	return x.calls.DevicePrimaryCtxRetain(x.gpus.At(gpu).Native)
}

// cool gives up WarmUp's contexts, for a process that begins with another one and doesn't use them.
func (x *Contexts) cool() {
	for gpu, a := range x.ahead {
		x.calls.DevicePrimaryCtxRelease(x.gpus.At(gpu).Native)
		x.hooks.Give(gpu, a.counts)
	}
	clear(x.ahead)
}

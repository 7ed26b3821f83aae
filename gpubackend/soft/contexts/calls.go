// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
)

// SetCurrent implements gpubackend.Driver. A primary context that nobody retains may be current,
// but not used.
func (x *Contexts) SetCurrent(h gpubackend.Context) gpubackend.Result {
	x.green = nil
	if h == 0 {
		x.current = nil
		return gpubackend.Success
	}
	if g, ok := handles.Find[*Green](x.options.Handles, uint64(h)); ok {
		x.current, x.green = g.Context, g
		return gpubackend.Success
	}
	c, ok := handles.Find[*Context](x.options.Handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	x.current = c
	return gpubackend.Success
}

// ContextQuery implements gpubackend.Driver.
func (x *Contexts) ContextQuery() gpubackend.Result {
	c, result := x.Current()
	if result != gpubackend.Success {
		return result
	}
	if x.green != nil {
		if x.options.Hooks.Busy(x.green) {
			return gpubackend.NotReady
		}
		return c.Failure()
	}
	return c.Query()
}

// contextFlags are the flags of cuCtxCreate. They mean nothing here: how to wait, coredumps.
const contextFlags = cudaabi.CtxFlagsMask

// CtxCreate implements gpubackend.Driver. The current context stays the same.
func (x *Contexts) CtxCreate(flags, dev uint64) (gpubackend.Context, gpubackend.Result) {
	if result := x.checkWorking(dev); result != gpubackend.Success {
		return 0, result
	}
	if flags&^contextFlags != 0 {
		return 0, gpubackend.InvalidValue
	}
	if !x.take(int(dev)) {
		return 0, gpubackend.OutOfMemory
	}
	c := x.newContext(int(dev))
	c.counts = true
	c.active, c.flags = true, flags
	x.usable(c)
	return c.Handle(), gpubackend.Success
}

// CtxDestroy implements gpubackend.Driver. It waits for the context's work.
func (x *Contexts) CtxDestroy(h gpubackend.Context) gpubackend.Result {
	c, ok := handles.Find[*Context](x.options.Handles, uint64(h))
	if !ok || c == x.primary[c.GPU] {
		return gpubackend.InvalidContext
	}
	x.empty(c)
	x.give(c)
	c.active = false
	x.options.Handles.Remove(c.handle)
	for i, other := range x.all {
		if other == c {
			x.all = append(x.all[:i], x.all[i+1:]...)
			break
		}
	}
	if x.current == c {
		x.current, x.green = nil, nil
	}
	return gpubackend.Success
}

// empty ends the context's work and destroys all that belongs to it.
func (x *Contexts) empty(c *Context) {
	x.peers.End(c)
	x.options.Hooks.Ending(c)
	c.Drain()
	c.End()
	x.options.Hooks.Ended(c)
	for h, object := range x.options.Handles.All() {
		if o, ok := object.(Owned); ok && o.Owner() == c {
			x.options.Handles.Remove(h)
		}
	}
}

// DevicePrimaryCtxRetain implements gpubackend.Driver.
func (x *Contexts) DevicePrimaryCtxRetain(dev uint64) (gpubackend.Context, gpubackend.Result) {
	if result := x.checkWorking(dev); result != gpubackend.Success {
		return 0, result
	}
	c := x.primary[dev]
	if !c.counts {
		if !x.take(c.GPU) {
			return 0, gpubackend.OutOfMemory
		}
		c.counts = true
	}
	c.active = true
	if c.users++; c.users == 1 {
		x.usable(c)
	}
	return c.Handle(), gpubackend.Success
}

// DevicePrimaryCtxRelease implements gpubackend.Driver.
func (x *Contexts) DevicePrimaryCtxRelease(dev uint64) gpubackend.Result {
	if result := x.CheckDevice(dev); result != gpubackend.Success {
		return result
	}
	c := x.primary[dev]
	if c.users == 0 {
		return gpubackend.InvalidContext
	}
	if c.users--; c.users == 0 {
		return x.DevicePrimaryCtxReset(dev)
	}
	return gpubackend.Success
}

// DevicePrimaryCtxReset implements gpubackend.Driver. The context is usable again if it is still
// retained.
func (x *Contexts) DevicePrimaryCtxReset(dev uint64) gpubackend.Result {
	if result := x.CheckDevice(dev); result != gpubackend.Success {
		return result
	}
	c := x.primary[dev]
	if x.current == c {
		x.green = nil
	}
	x.empty(c)
	c.limits, c.cacheConfig, c.heapFixed = defaultLimits, 0, false
	x.options.Output.Resize(output.DefaultBytes)
	if c.active = c.users > 0; !c.active {
		x.give(c)
	}
	c.Restart(x.alive)
	return gpubackend.Success
}

// take counts a context of a GPU that is about to begin, if there is room for it.
func (x *Contexts) take(gpu int) bool {
	return x.options.Hooks.Take == nil || x.options.Hooks.Take(gpu)
}

// give takes a context out of the count.
func (x *Contexts) give(c *Context) {
	if c.counts && x.options.Hooks.Give != nil {
		x.options.Hooks.Give(c.GPU)
	}
	c.counts = false
}

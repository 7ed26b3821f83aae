// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// gpuContext is a CUcontext. The primary one keeps its handle when it is reset.
type gpuContext struct {
	handle uint64
	active bool // primary: retained
	users  int  // primary: retained so often
	flags  uint64

	limits            [limitCount]uint64
	cacheConfig       uint64
	legacy            *stream
	streams           []*stream         // blocking and other, destroyed ones too until they are idle
	allocations       map[uint64]uint64 // address, size
	arrays            map[uint64]bool   // addresses of their memory
	textureReferences int               // made by TexRefCreate
	modules           map[uint64]*module
	libraries         map[*library]*module // libraries that this context uses
	heap              *simt.Heap           // of kernels' malloc; nil until a module wants it
	heapAddress       uint64

	*scheduler.Domain
}

// newContext makes a context in its initial state.
func (d *Device) newContext() *gpuContext {
	c := &gpuContext{Domain: d.scheduler.NewDomain(d.alive)}
	d.initialise(c)
	c.handle = d.handles.Add(c)
	d.contexts = append(d.contexts, c)
	return c
}

func (d *Device) initialise(c *gpuContext) {
	c.limits = defaultLimits
	c.cacheConfig = 0
	c.legacy = &stream{ctx: c, blocking: true}
	c.streams = nil
	c.allocations = make(map[uint64]uint64)
	c.textureReferences = 0
	c.arrays = make(map[uint64]bool)
	c.modules = make(map[uint64]*module)
	c.libraries = make(map[*library]*module)
}

// context returns the current context if it is usable.
func (d *Device) context() (*gpuContext, gpubackend.Result) {
	if d.space == nil {
		return nil, gpubackend.NotInitialized
	}
	if d.current == nil {
		return nil, gpubackend.InvalidContext
	}
	return d.current, d.state(d.current)
}

// state returns Success or why a context is not usable.
func (d *Device) state(c *gpuContext) gpubackend.Result {
	if !c.active {
		return gpubackend.ContextIsDestroyed
	}
	return c.Failure()
}

// SetCurrent implements gpubackend.Driver. A primary context that nobody retains may be current, but not used.
func (d *Device) SetCurrent(h gpubackend.Context) gpubackend.Result {
	d.green = nil
	if h == 0 {
		d.current = nil
		return gpubackend.Success
	}
	if g, ok := handles.Find[*greenContext](d.handles, uint64(h)); ok {
		d.current, d.green = g.ctx, g
		return gpubackend.Success
	}
	c, ok := handles.Find[*gpuContext](d.handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	d.current = c
	return gpubackend.Success
}

// ContextQuery implements gpubackend.Driver.
func (d *Device) ContextQuery() gpubackend.Result {
	c, result := d.context()
	if result != gpubackend.Success {
		return result
	}
	if d.green != nil {
		return d.green.query(d)
	}
	return c.Query()
}

// contextFlags are all flags of cuCtxCreate that mean nothing here: how to wait, coredumps.
const contextFlags = 0xff

// CtxCreate implements gpubackend.Driver. The current context stays the same.
func (d *Device) CtxCreate(flags, dev uint64) (gpubackend.Context, gpubackend.Result) {
	if result := d.device(dev); result != gpubackend.Success {
		return 0, result
	}
	if flags&^contextFlags != 0 {
		return 0, gpubackend.InvalidValue
	}
	c := d.newContext()
	c.active, c.flags = true, flags
	d.fillLibraries(c)
	return gpubackend.Context(c.handle), gpubackend.Success
}

// device checks a device number.
func (d *Device) device(dev uint64) gpubackend.Result {
	if d.space == nil {
		return gpubackend.NotInitialized
	}
	if dev != 0 {
		return gpubackend.InvalidDevice
	}
	return gpubackend.Success
}

// CtxDestroy implements gpubackend.Driver. It waits for the context's work.
func (d *Device) CtxDestroy(h gpubackend.Context) gpubackend.Result {
	c, ok := handles.Find[*gpuContext](d.handles, uint64(h))
	if !ok || c == d.primary {
		return gpubackend.InvalidContext
	}
	d.empty(c)
	c.active = false
	d.handles.Remove(c.handle)
	for i, other := range d.contexts {
		if other == c {
			d.contexts = append(d.contexts[:i], d.contexts[i+1:]...)
			break
		}
	}
	if d.current == c {
		d.current, d.green = nil, nil
	}
	return gpubackend.Success
}

// empty ends the context's work and destroys all that belongs to it.
func (d *Device) empty(c *gpuContext) {
	d.emptyGraphs(c)
	c.Drain()
	c.End()
	for addr := range c.allocations {
		d.deferFree(addr)
	}
	for addr := range c.arrays {
		d.deferFree(addr)
	}
	d.dropObjects(c)
	for _, m := range c.modules {
		d.unload(m)
	}
	for _, m := range c.libraries {
		d.unload(m)
	}
	if c.heap != nil {
		d.deferFree(c.heapAddress)
		c.heap.Close()
		c.heap, c.heapAddress = nil, 0
	}
	for h, object := range d.handles.All() {
		if o, ok := object.(owned); ok && o.owner() == c {
			if l, ok := object.(*link); ok {
				l.close()
			}
			d.handles.Remove(h)
		}
	}
	d.reclaim()
}

// owned is an object that dies with its context.
type owned interface{ owner() *gpuContext }

// DevicePrimaryCtxRetain implements gpubackend.Driver.
func (d *Device) DevicePrimaryCtxRetain(dev uint64) (gpubackend.Context, gpubackend.Result) {
	if result := d.device(dev); result != gpubackend.Success {
		return 0, result
	}
	d.primary.active = true
	if d.primary.users++; d.primary.users == 1 {
		d.fillLibraries(d.primary)
	}
	return gpubackend.Context(d.primary.handle), gpubackend.Success
}

// DevicePrimaryCtxRelease implements gpubackend.Driver.
func (d *Device) DevicePrimaryCtxRelease(dev uint64) gpubackend.Result {
	if result := d.device(dev); result != gpubackend.Success {
		return result
	}
	if d.primary.users == 0 {
		return gpubackend.InvalidContext
	}
	if d.primary.users--; d.primary.users == 0 {
		return d.DevicePrimaryCtxReset(dev)
	}
	return gpubackend.Success
}

// DevicePrimaryCtxReset implements gpubackend.Driver. The context is usable again if it is still retained.
func (d *Device) DevicePrimaryCtxReset(dev uint64) gpubackend.Result {
	if result := d.device(dev); result != gpubackend.Success {
		return result
	}
	c := d.primary
	d.green = nil
	d.empty(c)
	d.initialise(c)
	d.output.resize(int(defaultLimits[limitPrintf]))
	c.active = c.users > 0
	c.Restart(d.alive)
	return gpubackend.Success
}

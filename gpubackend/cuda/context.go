// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// context is what is known of a context of the driver.
type context struct {
	handle   gpubackend.Context
	gpu      int
	base     *context // of a green context: the primary one, whose memory and modules it shares
	primary  bool     // its record stays: the driver makes it again under the same handle
	retained int      // references to a primary context
	work     activity
	copies   gpubackend.Stream // of CopyOut, 0 until the first
	code     uint64            // what the variables of libraries count for
	freed    []freed
	dead     gpubackend.Result // the error that ended the context
}

// DevicePrimaryCtxRetain keeps a record of the context.
func (d *Device) DevicePrimaryCtxRetain(dev uint64) (gpubackend.Context, gpubackend.Result) {
	i, ok := d.gpuOf(dev)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	if c := d.primary(i); (c == nil || c.retained == 0) && !d.roomForCode(i) {
		return 0, gpubackend.OutOfMemory
	}
	h, r := d.retain(i)
	if r != gpubackend.Success {
		return 0, r
	}
	c := d.contextOf(h, i)
	c.primary = true
	if c.retained++; c.retained == 1 && d.current == h {
		// It stayed current while nobody retained it, and is another one now.
		r = d.CtxSetCurrent(h)
	}
	if c.retained == 1 {
		d.beginCode(c)
	}
	if c.retained == 1 && r == gpubackend.Success {
		d.serveLibrariesIn(c)
	}
	return h, r
}

// DevicePrimaryCtxRelease forgets the context with its last reference.
func (d *Device) DevicePrimaryCtxRelease(dev uint64) gpubackend.Result {
	d.forgetReplays()
	i, ok := d.gpuOf(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	c := d.primary(i)
	if c == nil || c.retained == 0 {
		return gpubackend.InvalidContext
	}
	if c.retained == 1 {
		d.leave(c)
	}
	r := d.calls.DevicePrimaryCtxRelease(d.gpus[i].native)
	if r == gpubackend.Success {
		if c.retained--; c.retained == 0 {
			d.forget(c)
		}
	}
	return r
}

// DevicePrimaryCtxReset ends what the context holds; its references stay.
func (d *Device) DevicePrimaryCtxReset(dev uint64) gpubackend.Result {
	d.forgetReplays()
	i, ok := d.gpuOf(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	d.cool()
	c := d.primary(i)
	if c != nil {
		d.leave(c)
	}
	r := d.calls.DevicePrimaryCtxReset(d.gpus[i].native)
	if r == gpubackend.Success && c != nil {
		d.forget(c)
		if c.retained > 0 {
			d.beginCode(c)
		}
		if d.current == c.handle {
			d.CtxSetCurrent(c.handle)
		}
	}
	return r
}

// CtxCreate keeps a record of the context. Creating one makes it the thread's current one, which is undone.
func (d *Device) CtxCreate(flags, dev uint64) (gpubackend.Context, gpubackend.Result) {
	i, ok := d.gpuOf(dev)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	d.cool()
	if !d.roomForCode(i) {
		return 0, gpubackend.OutOfMemory
	}
	h, r := d.calls.CtxCreate(flags, d.gpus[i].native)
	if r != gpubackend.Success {
		return 0, r
	}
	c := d.contextOf(h, i)
	d.beginCode(c)
	if r = d.CtxPopCurrent(); r == gpubackend.Success {
		d.serveLibrariesIn(c)
	}
	return h, r
}

// CtxDestroy forgets the context.
func (d *Device) CtxDestroy(h gpubackend.Context) gpubackend.Result {
	d.forgetReplays()
	c := d.contexts[h]
	if c == nil || c.primary || c.base != nil {
		return gpubackend.InvalidContext
	}
	d.leave(c)
	if d.current == h {
		d.SetCurrent(0)
	}
	r := d.calls.CtxDestroy(h)
	d.forget(c)
	return r
}

// SetCurrent makes c current for the calling thread.
func (d *Device) SetCurrent(h gpubackend.Context) gpubackend.Result {
	if h == d.current {
		return gpubackend.Success
	}
	state := d.contexts[h]
	if h != 0 && state == nil {
		return gpubackend.InvalidContext
	}
	if r := d.CtxSetCurrent(h); r != gpubackend.Success {
		return r
	}
	d.current, d.state = h, state
	d.ReportTo(nil)
	if state != nil {
		d.ReportTo(&state.work)
		d.serveLibraries()
	}
	return gpubackend.Success
}

func (d *Device) gpuOf(dev uint64) (int, bool) {
	i := int(int32(uint32(dev)))
	return i, i >= 0 && i < len(d.gpus)
}

func (d *Device) contextOf(h gpubackend.Context, gpu int) *context {
	c := d.contexts[h]
	if c == nil {
		c = &context{handle: h, gpu: gpu}
		d.contexts[h] = c
	}
	return c
}

func (d *Device) primary(gpu int) *context {
	for _, c := range d.contexts {
		if c.gpu == gpu && c.primary {
			return c
		}
	}
	return nil
}

// leave makes sure that the memory of a context that ends is in use by nobody.
func (d *Device) leave(c *context) {
	before := d.current
	if r := d.SetCurrent(c.handle); r == gpubackend.Success && d.holds(c) {
		d.CtxSynchronize()
	}
	d.SetCurrent(before)
}

// holds says whether c has memory that its end gives back.
func (d *Device) holds(c *context) bool {
	if len(c.freed) > 0 {
		return true
	}
	for _, owner := range d.owners {
		if owner == c {
			return true
		}
	}
	return false
}

// forget gives back the memory of a context that has ended.
func (d *Device) forget(c *context) {
	d.forgetGreen(c)
	d.forgetStreams(c)
	d.takeBack(c)
	d.unchargeContext(c)
	d.dropContext(c)
	d.forgetObjects(c)
	d.unchargeLimits(c.handle)
	d.unchargeCode([]*context{c}, c.code)
	if d.graphMemory.any {
		d.measureGraphs()
	}
	d.forgetPlaced(nil, c)
	d.forgetRegistered(c)
	for addr, owner := range d.owners {
		if owner == c {
			delete(d.owners, addr)
			d.release(c, addr)
		}
	}
	if !c.primary {
		delete(d.contexts, c.handle)
		return
	}
	c.work, c.copies, c.dead = activity{}, 0, gpubackend.Success
}

// home is the context that owns what is made in c.
func (c *context) home() *context {
	if c.base != nil {
		return c.base
	}
	return c
}

// usable says whether a context is current and exists.
func (d *Device) usable() bool { return d.state != nil && d.state.exists() }

// exists says whether c is more than the record of a primary context.
func (c *context) exists() bool { return !c.home().primary || c.home().retained > 0 }

// anyContext returns some context that works, or nil.
func (d *Device) anyContext() *context {
	for _, c := range d.contexts {
		if c.exists() && c.home().dead == gpubackend.Success {
			return c
		}
	}
	return nil
}

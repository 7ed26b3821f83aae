// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// DevResource asks the driver.
func (d *Device) DevResource(of gpubackend.ResourceSource, which, kind uint64) (r gpubackend.Resource, result gpubackend.Result) {
	if of != gpubackend.OfContext && of != gpubackend.OfGreenContext {
		i, ok := d.gpuOf(which)
		if !ok {
			return r, gpubackend.InvalidDevice
		}
		of, which = gpubackend.OfDevice, d.gpus[i].native
	}
	return d.Resource(of, which, kind)
}

// GreenCtxCreate makes a green context, and a record of the context that it is made current by.
func (d *Device) GreenCtxCreate(
	desc gpubackend.ResourceDesc, dev, flags uint64,
) (gpubackend.GreenContext, gpubackend.Context, gpubackend.Result) {
	i, ok := d.gpuOf(dev)
	if !ok {
		return 0, 0, gpubackend.InvalidDevice
	}
	base := d.primary(i)
	if base == nil || base.retained == 0 {
		return 0, 0, gpubackend.InvalidContext
	}
	g, r := d.GreenCtxMake(desc, d.gpus[i].native, flags)
	if r != gpubackend.Success {
		return 0, 0, r
	}
	h, r := d.CtxFromGreenCtx(g)
	if r != gpubackend.Success {
		d.GreenCtxEnd(g)
		return 0, 0, r
	}
	if d.contexts[h] != nil { // then nothing would tell its work from that context's
		d.GreenCtxEnd(g)
		return 0, 0, gpubackend.NotSupported
	}
	d.contexts[h] = &context{handle: h, gpu: i, base: base}
	if d.greens == nil {
		d.greens = map[gpubackend.GreenContext]gpubackend.Context{}
	}
	d.greens[g] = h
	return g, h, gpubackend.Success
}

// GreenCtxDestroy waits for the work in a green context and ends it.
func (d *Device) GreenCtxDestroy(g gpubackend.GreenContext) gpubackend.Result {
	h, ok := d.greens[g]
	if !ok {
		return gpubackend.InvalidContext
	}
	d.forgetReplays()
	c := d.contexts[h]
	before := d.current
	if before == h {
		before = c.base.handle
	}
	if d.SetCurrent(h) == gpubackend.Success {
		d.CtxSynchronize()
	}
	d.SetCurrent(before)
	r := d.GreenCtxEnd(g)
	if r == gpubackend.Success {
		delete(d.greens, g)
		d.unchargeLimits(h)
		d.forgetStreams(c)
		delete(d.contexts, h)
		c.base.freed = append(c.base.freed, c.freed...) // until that context is idle, too
	}
	return r
}

// GreenCtxStreamCreate makes a stream in a green context, whichever context is current.
func (d *Device) GreenCtxStreamCreate(g gpubackend.GreenContext, flags, priority uint64) (gpubackend.Stream, gpubackend.Result) {
	if _, ok := d.greens[g]; !ok {
		return 0, gpubackend.InvalidContext
	}
	s, r := d.calls.GreenCtxStreamCreate(g, flags, priority)
	if r == gpubackend.Success {
		d.streams[s] = d.contexts[d.greens[g]]
	}
	return s, r
}

// greenBusy says whether a green context of the current one may have work in flight.
func (d *Device) greenBusy() bool {
	for _, h := range d.greens {
		if c := d.contexts[h]; c.base == d.state && c.work.busy() {
			return true
		}
	}
	return false
}

// queryGreen asks the streams of the green contexts that are part of the current one.
func (d *Device) queryGreen() (r gpubackend.Result) {
	here := d.state
	for _, h := range d.greens {
		if c := d.contexts[h]; c.base != here || !c.work.busy() {
			continue
		}
		if r = d.SetCurrent(h); r == gpubackend.Success {
			r = d.queryOwn()
		}
		if r != gpubackend.Success {
			break
		}
	}
	if back := d.SetCurrent(here.handle); r == gpubackend.Success {
		r = back
	}
	return r
}

// forgetGreen forgets the green contexts of a context that has ended.
func (d *Device) forgetGreen(base *context) {
	for g, h := range d.greens {
		if c := d.contexts[h]; c.base == base {
			base.freed = append(base.freed, c.freed...)
			d.unchargeLimits(h)
			d.forgetStreams(c)
			delete(d.contexts, h)
			delete(d.greens, g)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// resourceSpace is what the driver may write for a resource: its size and as much again, should a newer driver know of more.
const resourceSpace = 2 * gpubackend.ResourceBytes

// DevResource asks the driver.
func (d *Device) DevResource(of gpubackend.ResourceSource, which, kind uint64) (r gpubackend.Resource, result gpubackend.Result) {
	function := symDeviceGetDevResource
	switch of {
	case gpubackend.OfContext:
		function = symCtxGetDevResource
	case gpubackend.OfGreenContext:
		function = symGreenCtxGetDevResource
	default:
		i, ok := d.gpuOf(which)
		if !ok {
			return r, gpubackend.InvalidDevice
		}
		which = d.gpus[i].native
	}
	b := allocate(resourceSpace)
	defer b.free()
	result = d.call(function, which, b.address(), kind)
	copy(r[:], b.bytes())
	return r, result
}

// SplitResource has the driver split its own resource.
func (d *Device) SplitResource(
	r *gpubackend.Resource, groups []gpubackend.Resource, flags, least uint64,
) (n int, rest gpubackend.Resource, result gpubackend.Result) {
	in := copied(r[:], resourceSpace)
	defer in.free()
	out := allocate(resourceSpace + len(groups)*gpubackend.ResourceBytes + resourceSpace)
	defer out.free()
	first, count := uint64(0), d.out(0)
	if len(groups) > 0 {
		first = out.address() + resourceSpace
	}
	d.setValue(0, uint64(len(groups)))
	result = d.call(symDevSmResourceSplitByCount, first, count, in.address(), out.address(), flags, least)
	n = int(uint32(d.value(0)))
	b := out.bytes()
	copy(rest[:], b)
	for i := range groups {
		copy(groups[i][:], b[resourceSpace+i*gpubackend.ResourceBytes:])
	}
	return n, rest, result
}

// DescribeResources makes a descriptor, which nothing frees.
func (d *Device) DescribeResources(rs []gpubackend.Resource) (gpubackend.ResourceDesc, gpubackend.Result) {
	b := allocate(len(rs)*gpubackend.ResourceBytes + resourceSpace)
	defer b.free()
	for i := range rs {
		copy(b.bytes()[i*gpubackend.ResourceBytes:], rs[i][:])
	}
	result := d.call(symDevResourceGenerateDesc, d.out(0), b.address(), uint64(len(rs)))
	return gpubackend.ResourceDesc(d.value(0)), result
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
	if r := d.call(symGreenCtxCreate, d.out(0), uint64(desc), d.gpus[i].native, flags); r != gpubackend.Success {
		return 0, 0, r
	}
	g := gpubackend.GreenContext(d.value(0))
	if r := d.call(symCtxFromGreenCtx, d.out(0), uint64(g)); r != gpubackend.Success {
		d.call(symGreenCtxDestroy, uint64(g))
		return 0, 0, r
	}
	h := gpubackend.Context(d.value(0))
	if d.contexts[h] != nil { // then nothing would tell its work from that context's
		d.call(symGreenCtxDestroy, uint64(g))
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
		d.call(symCtxSynchronize)
	}
	d.SetCurrent(before)
	r := d.call(symGreenCtxDestroy, uint64(g))
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

// setValue gives an output word a value for the driver to read.
func (l *library) setValue(i int, v uint64) {
	binary.LittleEndian.PutUint64(at(l.out(i), 8), v)
}

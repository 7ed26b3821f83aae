// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
)

// direction of a copy between guest memory and the device.
type direction bool

const (
	toDevice direction = true
	toHost   direction = false
)

// copyHtoD copies to the device.
func (t *Copies) copyHtoD(c *call.Call, a command.CopyHtoD) gpubackend.Result {
	return t.endPart(c, isPart(c, a.Flags), t.copyLinear(c, toDevice, &a))
}

// copyDtoH copies from the device: the same the other way round.
func (t *Copies) copyDtoH(c *call.Call, a command.CopyDtoH) gpubackend.Result {
	linear := command.CopyHtoD(a)
	return t.endPart(c, isPart(c, a.Flags), t.copyLinear(c, toHost, &linear))
}

func (t *Copies) copyLinear(c *call.Call, dir direction, a *command.CopyHtoD) gpubackend.Result {
	r, bytes := a.Host, a.Bytes
	if bytes > r.Bytes {
		return gpubackend.InvalidValue
	}
	r.Bytes = bytes
	s, result := t.Streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	t.Count(handover.Copies, 1)
	dev := box{address: a.Device, width: bytes, height: 1, depth: 1}
	if r.Kind != wire.BufferMap {
		return t.copyInline(c, dir, r, dev, s)
	}
	m, result := t.Maps.Named(r, dir == toHost)
	if result != gpubackend.Success {
		return result
	}
	if t.AtAddress(m, r) {
		return t.copyPinned(c, dir, m, r, a.Flags, dev.address, s)
	}
	return t.copyMapped(c, isPart(c, a.Flags), dir, m, linear(r.MapOffset(), bytes), dev, s)
}

// copyInline copies a payload that travels in the arena.
func (t *Copies) copyInline(
	c *call.Call, dir direction, r call.Reference, dev box, s gpubackend.Stream,
) gpubackend.Result {
	b, result := c.InPlace(r)
	if result != gpubackend.Success {
		return result
	}
	if uint64(len(b)) < r.Bytes {
		return gpubackend.InvalidValue
	}
	if dir == toDevice {
		if result := t.readable(r); result != gpubackend.Success {
			return result
		}
		result := t.Driver.CopyIn(dev.address, b, s)
		return t.whenTaken(c, r, s, result)
	}
	// The answer to a copy to the host waits for the stream.
	if r.Kind != wire.BufferBulk || !c.Reply() {
		return gpubackend.InvalidValue
	}
	return t.fetch(c, b, hostLayout{}, dev, s)
}

// readable prepares a payload in the arena for the driver. The device reads the bulk area itself;
// the driver stages what came in the ring.
func (t *Copies) readable(r call.Reference) gpubackend.Result {
	if r.Kind == wire.BufferBulk {
		return t.registerBulk()
	}
	t.Count(handover.BytesCopied, r.Bytes)
	return gpubackend.Success
}

// whenTaken answers a copy from the arena when its source may be changed. The driver has staged
// what came in the ring. The bulk area is registered, so the device reads it later: the call waits
// for the stream.
func (t *Copies) whenTaken(
	c *call.Call, r call.Reference, s gpubackend.Stream, result gpubackend.Result,
) gpubackend.Result {
	if result != gpubackend.Success || r.Kind != wire.BufferBulk || !c.Reply() {
		return result
	}
	return t.WhenDone(c, s)
}

// fetch copies to the bulk area, which the driver knows as host memory of this process, and answers
// when it is there.
func (t *Copies) fetch(
	c *call.Call, bulk []byte, host hostLayout, dev box, s gpubackend.Stream,
) gpubackend.Result {
	if result := t.registerBulk(); result != gpubackend.Success {
		return result
	}
	result := t.Driver.CopyBox(&gpubackend.Box{
		Dst: t.Arena().Address(bulk), DstPitch: host.pitch, DstSlice: host.slice,
		Src: dev.address, SrcPitch: dev.pitch, SrcSlice: dev.slice, Width: dev.width,
		Height: dev.height, Depth: dev.depth,
	}, s)
	if result != gpubackend.Success {
		return result
	}
	return t.WhenDone(c, s)
}

// registerBulk makes the bulk area known to the driver, once.
func (t *Copies) registerBulk() gpubackend.Result {
	if t.bulkRegistered {
		return gpubackend.Success
	}
	b := t.Arena().BulkArea()
	result := t.Driver.HostRegister(t.Arena().Address(b), uint64(len(b)), true)
	t.bulkRegistered = result == gpubackend.Success
	return result
}

// copyPinned copies between the device and memory that the driver reaches at the guest's address,
// as asynchronously as CUDA itself.
func (t *Copies) copyPinned(c *call.Call, dir direction, m *maps.Map, r call.Reference, flags,
	dev uint64, s gpubackend.Stream) gpubackend.Result {
	host := m.Address + r.MapOffset()
	dst, src := dev, host
	if dir == toHost {
		dst, src = host, dev
	}
	t.Count(handover.BytesMapped, r.Bytes)
	t.queued.add(r.Bytes)
	if result := t.Driver.Copy(dst, src, r.Bytes, s); result != gpubackend.Success {
		return result
	}
	if flags&wire.CopyFlagBlocking != 0 {
		return t.Synchronize(c, s)
	}
	return gpubackend.Success
}

// copyMapped starts a copy through the mover.
func (t *Copies) copyMapped(c *call.Call, part bool, dir direction, m *maps.Map, host hostLayout,
	dev box, s gpubackend.Stream) gpubackend.Result {
	if !c.Reply() && !part {
		return gpubackend.InvalidValue
	}
	t.Maps.Use(m)
	t.Count(handover.BytesMapped, dev.bytes())
	op := &operation{t: t, dir: dir, dev: dev, stream: s, context: c.Context, mapping: m,
		host: host}
	op.lends = t.direct(op, part)
	if result := op.Advance(); result != gpubackend.NotReady {
		return result
	}
	if part {
		op.parts = t.partsOf(c)
		op.parts.running++
	}
	return t.Await(c, op)
}

// direct says whether a copy may go directly between guest pages and the memory that the guest
// process allocated. A lone copy to the device that has to wait for earlier work may not: CUDA lets
// the caller go on as soon as the source has been read.
func (t *Copies) direct(op *operation, part bool) bool {
	if !op.dev.contiguous() || op.dev.bytes() == 0 {
		return false
	}
	if op.dir == toHost || part {
		return true
	}
	op.settled = t.Driver.ContextQuery() == gpubackend.Success
	return op.settled
}

// copyBox copies rows.
func (t *Copies) copyBox(c *call.Call, a command.CopyBox) gpubackend.Result {
	dev := box{a.Device, a.Pitch, a.Slice, a.Width, a.Height, a.Depth}
	host := hostLayout{pitch: a.HostPitch, slice: a.HostSlice}
	s, result := t.Streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	if !dev.valid(dev.pitch, dev.slice) || !dev.valid(host.pitch, host.slice) {
		return gpubackend.InvalidValue
	}
	t.Count(handover.Copies, 1)
	if a.Kind == command.BoxDtod {
		if a.Host.Kind != wire.BufferNone {
			return gpubackend.InvalidValue
		}
		return t.Driver.CopyBox(&gpubackend.Box{
			Dst: dev.address, DstPitch: dev.pitch, DstSlice: dev.slice, Src: a.Host.Value,
			SrcPitch: host.pitch, SrcSlice: host.slice,
			Width: dev.width, Height: dev.height, Depth: dev.depth,
		}, s)
	}
	if dev.extent(host.pitch, host.slice) > a.Host.Bytes {
		return gpubackend.InvalidValue
	}
	return t.copyBoxHost(c, &a, host, dev, s)
}

func (t *Copies) copyBoxHost(
	c *call.Call, a *command.CopyBox, host hostLayout, dev box, s gpubackend.Stream,
) gpubackend.Result {
	r, dir := a.Host, direction(a.Kind == command.BoxHtod)
	if r.Kind != wire.BufferMap {
		return t.copyBoxInline(c, dir, r, host, dev, s)
	}
	m, result := t.Maps.Named(r, dir == toHost)
	if result != gpubackend.Success {
		return result
	}
	if !t.AtAddress(m, r) {
		host.offset = r.MapOffset()
		return t.copyMapped(c, false, dir, m, host, dev, s)
	}
	at := m.Address + r.MapOffset()
	b := gpubackend.Box{
		Dst: dev.address, DstPitch: dev.pitch, DstSlice: dev.slice, Src: at, SrcPitch: host.pitch,
		SrcSlice: host.slice,
		Width:    dev.width, Height: dev.height, Depth: dev.depth,
	}
	if dir == toHost {
		b.Dst, b.Src, b.DstPitch, b.SrcPitch, b.DstSlice, b.SrcSlice = b.Src, b.Dst, b.SrcPitch,
			b.DstPitch, b.SrcSlice, b.DstSlice
	}
	t.Count(handover.BytesMapped, dev.bytes())
	t.queued.add(dev.bytes())
	if result := t.Driver.CopyBox(&b, s); result != gpubackend.Success {
		return result
	}
	if a.Flags&wire.CopyFlagBlocking != 0 {
		return t.Synchronize(c, s)
	}
	return gpubackend.Success
}

// copyBoxInline copies rows from or to the arena, one by one.
func (t *Copies) copyBoxInline(
	c *call.Call, dir direction, r call.Reference, host hostLayout, dev box, s gpubackend.Stream,
) gpubackend.Result {
	b, result := c.InPlace(r)
	if result != gpubackend.Success {
		return result
	}
	if uint64(len(b)) < dev.extent(host.pitch, host.slice) {
		return gpubackend.InvalidValue
	}
	if dev.bytes() == 0 {
		return gpubackend.Success
	}
	if dir == toHost {
		if r.Kind != wire.BufferBulk || !c.Reply() {
			return gpubackend.InvalidValue
		}
		return t.fetch(c, b, host, dev, s)
	}
	if result := t.readable(r); result != gpubackend.Success {
		return result
	}
	for row := range dev.rows() {
		at := row.offset(host.pitch, host.slice)
		if result := t.Driver.CopyIn(dev.address+row.offset(dev.pitch, dev.slice),
			b[at:at+dev.width], s); result != gpubackend.Success {
			return result
		}
	}
	return t.whenTaken(c, r, s, gpubackend.Success)
}

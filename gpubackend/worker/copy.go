// SPDX-License-Identifier: Apache-2.0

package worker

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

// runCopyHtoD copies to the device.
func (w *Worker) runCopyHtoD(c *call.Call, a command.CopyHtoD) gpubackend.Result {
	return w.endPart(c, isPart(c, a.Flags), w.copyLinear(c, toDevice, &a))
}

// runCopyDtoH copies from the device: the same the other way round.
func (w *Worker) runCopyDtoH(c *call.Call, a command.CopyDtoH) gpubackend.Result {
	linear := command.CopyHtoD(a)
	return w.endPart(c, isPart(c, a.Flags), w.copyLinear(c, toHost, &linear))
}

func (w *Worker) copyLinear(c *call.Call, dir direction, a *command.CopyHtoD) gpubackend.Result {
	r, bytes := a.Host, a.Bytes
	if bytes > r.Bytes {
		return gpubackend.InvalidValue
	}
	r.Bytes = bytes
	s, result := w.streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	w.state.Count(handover.Copies, 1)
	dev := box{address: a.Device, width: bytes, height: 1, depth: 1}
	if r.Kind != wire.BufferMap {
		return w.copyInline(c, dir, r, dev, s)
	}
	m, result := w.maps.Named(r, dir == toHost)
	if result != gpubackend.Success {
		return result
	}
	if w.hostMemory.AtAddress(m, r) {
		return w.copyPinned(c, dir, m, r, a.Flags, dev.address, s)
	}
	return w.copyMapped(c, isPart(c, a.Flags), dir, m, linear(r.MapOffset(), bytes), dev, s)
}

// copyInline copies a payload that travels in the arena.
func (w *Worker) copyInline(c *call.Call, dir direction, r call.Reference, dev box, s gpubackend.Stream) gpubackend.Result {
	b, result := c.InPlace(r)
	if result != gpubackend.Success {
		return result
	}
	if uint64(len(b)) < r.Bytes {
		return gpubackend.InvalidValue
	}
	if dir == toDevice {
		if result := w.readable(r); result != gpubackend.Success {
			return result
		}
		result := w.driver.CopyIn(dev.address, b, s)
		return w.whenTaken(c, r, s, result)
	}
	// The answer to a copy to the host waits for the stream.
	if r.Kind != wire.BufferBulk || !c.Reply() {
		return gpubackend.InvalidValue
	}
	return w.fetch(c, b, hostLayout{}, dev, s)
}

// readable prepares a payload in the arena for the driver. The device reads the bulk area itself; what came in the
// ring is copied by the driver's staging.
func (w *Worker) readable(r call.Reference) gpubackend.Result {
	if r.Kind == wire.BufferBulk {
		return w.registerBulk()
	}
	w.state.Count(handover.BytesCopied, r.Bytes)
	return gpubackend.Success
}

// whenTaken answers a copy from the arena when its source may be changed. What came in the ring has been staged by the
// driver. The bulk area is registered, so that the device reads it in its own time: the call waits for the stream.
func (w *Worker) whenTaken(c *call.Call, r call.Reference, s gpubackend.Stream, result gpubackend.Result) gpubackend.Result {
	if result != gpubackend.Success || r.Kind != wire.BufferBulk || !c.Reply() {
		return result
	}
	return w.whenDone(c, s)
}

// fetch copies to the bulk area, which the driver knows as host memory of this process, and answers when it is there.
func (w *Worker) fetch(c *call.Call, bulk []byte, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
	if result := w.registerBulk(); result != gpubackend.Success {
		return result
	}
	result := w.driver.CopyBox(&gpubackend.Box{
		Dst: w.arena.Address(bulk), DstPitch: host.pitch, DstSlice: host.slice,
		Src: dev.address, SrcPitch: dev.pitch, SrcSlice: dev.slice, Width: dev.width, Height: dev.height, Depth: dev.depth,
	}, s)
	if result != gpubackend.Success {
		return result
	}
	return w.whenDone(c, s)
}

// registerBulk makes the bulk area known to the driver, once.
func (w *Worker) registerBulk() gpubackend.Result {
	if w.bulkRegistered {
		return gpubackend.Success
	}
	b := w.arena.BulkArea()
	result := w.driver.HostRegister(w.arena.Address(b), uint64(len(b)), true)
	w.bulkRegistered = result == gpubackend.Success
	return result
}

// copyPinned copies between the device and memory that the driver reaches at the guest's address: as asynchronous as
// CUDA's own.
func (w *Worker) copyPinned(c *call.Call, dir direction, m *maps.Map, r call.Reference, flags, dev uint64, s gpubackend.Stream) gpubackend.Result {
	host := m.Address + r.MapOffset()
	dst, src := dev, host
	if dir == toHost {
		dst, src = host, dev
	}
	w.state.Count(handover.BytesMapped, r.Bytes)
	w.queued.add(r.Bytes)
	if result := w.driver.Copy(dst, src, r.Bytes, s); result != gpubackend.Success {
		return result
	}
	if flags&wire.CopyFlagBlocking != 0 {
		return w.synchronize(c, waitStream, uint64(s))
	}
	return gpubackend.Success
}

// copyMapped starts a copy through the mover.
func (w *Worker) copyMapped(c *call.Call, part bool, dir direction, m *maps.Map, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
	if w.mover == nil {
		return gpubackend.NotSupported
	}
	if !c.Reply() && !part {
		return gpubackend.InvalidValue
	}
	w.maps.Use(m)
	w.state.Count(handover.BytesMapped, dev.bytes())
	op := &copyOp{dir: dir, part: part, dev: dev, stream: s, mapping: m, host: host}
	if w.straight(op) {
		op.loan = w.lend(dev.address, dev.bytes())
	}
	return w.startCopy(c, op)
}

// straight says whether a copy may go straight between guest pages and the memory that the guest process allocated. A lone one
// to the device that would have to wait for earlier work may not: CUDA lets the caller go on as soon as the source has been read.
func (w *Worker) straight(op *copyOp) bool {
	if !op.dev.contiguous() || op.dev.bytes() == 0 {
		return false
	}
	if op.dir == toHost || op.part {
		return true
	}
	op.settled = w.driver.ContextQuery() == gpubackend.Success
	return op.settled
}

// startCopy makes the call wait for its copy.
func (w *Worker) startCopy(c *call.Call, op *copyOp) gpubackend.Result {
	op.context = c.Context
	if result := w.advance(op); result != gpubackend.NotReady {
		return result
	}
	x := waiter{
		kind: waitCopy, slot: c.Slot, seq: c.Seq, reply: c.Reply(), context: c.Context, copy: op,
	}
	if op.part {
		x.part = w.partsOf(c)
		x.part.running++
	}
	w.waiters = append(w.waiters, x)
	return call.Pending
}

// runCopyBox copies rows.
func (w *Worker) runCopyBox(c *call.Call, a command.CopyBox) gpubackend.Result {
	dev := box{a.Device, a.Pitch, a.Slice, a.Width, a.Height, a.Depth}
	host := hostLayout{pitch: a.HostPitch, slice: a.HostSlice}
	s, result := w.streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	if !dev.valid(dev.pitch, dev.slice) || !dev.valid(host.pitch, host.slice) {
		return gpubackend.InvalidValue
	}
	w.state.Count(handover.Copies, 1)
	if a.Kind == command.BoxDtod {
		if a.Host.Kind != wire.BufferNone {
			return gpubackend.InvalidValue
		}
		return w.driver.CopyBox(&gpubackend.Box{
			Dst: dev.address, DstPitch: dev.pitch, DstSlice: dev.slice, Src: a.Host.Value, SrcPitch: host.pitch, SrcSlice: host.slice,
			Width: dev.width, Height: dev.height, Depth: dev.depth,
		}, s)
	}
	if dev.extent(host.pitch, host.slice) > a.Host.Bytes {
		return gpubackend.InvalidValue
	}
	return w.copyBoxHost(c, &a, host, dev, s)
}

func (w *Worker) copyBoxHost(c *call.Call, a *command.CopyBox, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
	r, dir := a.Host, direction(a.Kind == command.BoxHtod)
	if r.Kind != wire.BufferMap {
		return w.copyBoxInline(c, dir, r, host, dev, s)
	}
	m, result := w.maps.Named(r, dir == toHost)
	if result != gpubackend.Success {
		return result
	}
	if !w.hostMemory.AtAddress(m, r) {
		host.offset = r.MapOffset()
		return w.copyMapped(c, false, dir, m, host, dev, s)
	}
	at := m.Address + r.MapOffset()
	b := gpubackend.Box{
		Dst: dev.address, DstPitch: dev.pitch, DstSlice: dev.slice, Src: at, SrcPitch: host.pitch, SrcSlice: host.slice,
		Width: dev.width, Height: dev.height, Depth: dev.depth,
	}
	if dir == toHost {
		b.Dst, b.Src, b.DstPitch, b.SrcPitch, b.DstSlice, b.SrcSlice = b.Src, b.Dst, b.SrcPitch, b.DstPitch, b.SrcSlice, b.DstSlice
	}
	w.state.Count(handover.BytesMapped, dev.bytes())
	w.queued.add(dev.bytes())
	if result := w.driver.CopyBox(&b, s); result != gpubackend.Success {
		return result
	}
	if a.Flags&wire.CopyFlagBlocking != 0 {
		return w.synchronize(c, waitStream, uint64(s))
	}
	return gpubackend.Success
}

// copyBoxInline copies rows from or to the arena, one by one.
func (w *Worker) copyBoxInline(c *call.Call, dir direction, r call.Reference, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
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
		return w.fetch(c, b, host, dev, s)
	}
	if result := w.readable(r); result != gpubackend.Success {
		return result
	}
	for row := range dev.rows() {
		at := row.offset(host.pitch, host.slice)
		if result := w.driver.CopyIn(dev.address+row.offset(dev.pitch, dev.slice), b[at:at+dev.width], s); result != gpubackend.Success {
			return result
		}
	}
	return w.whenTaken(c, r, s, gpubackend.Success)
}

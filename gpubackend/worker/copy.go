// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// direction of a copy between guest memory and the device.
type direction bool

const (
	toDevice direction = true
	toHost   direction = false
)

// runCopyHtoD copies to the device: device address, buffer, bytes, stream, flags.
func runCopyHtoD(w *Worker, c *call) gpubackend.Result {
	return w.endPart(c, w.copyLinear(c, toDevice))
}

// runCopyDtoH copies from the device, with the same words.
func runCopyDtoH(w *Worker, c *call) gpubackend.Result { return w.endPart(c, w.copyLinear(c, toHost)) }

func (w *Worker) copyLinear(c *call, dir direction) gpubackend.Result {
	r := c.reference(1)
	bytes := c.word(3)
	if bytes > r.bytes {
		return gpubackend.InvalidValue
	}
	r.bytes = bytes
	s, result := w.findStream(c, c.word(4))
	if result != gpubackend.Success {
		return result
	}
	w.state.Count(handover.Copies, 1)
	dev := box{address: c.word(0), width: bytes, height: 1, depth: 1}
	if r.kind != wire.BufferMap {
		return w.copyInline(c, dir, r, dev, s)
	}
	m, result := w.mapped(r, dir == toHost)
	if result != gpubackend.Success {
		return result
	}
	if w.isAtAddress(m, r) {
		return w.copyPinned(c, dir, m, r, dev.address, s)
	}
	return w.copyMapped(c, dir, m, linear(r.mapOffset(), bytes), dev, s)
}

// copyInline copies a payload that travels in the arena.
func (w *Worker) copyInline(c *call, dir direction, r reference, dev box, s gpubackend.Stream) gpubackend.Result {
	b, result := w.inPlace(c, r)
	if result != gpubackend.Success {
		return result
	}
	if uint64(len(b)) < r.bytes {
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
	if r.kind != wire.BufferBulk || c.flags&wire.CommandFlagReply == 0 {
		return gpubackend.InvalidValue
	}
	return w.fetch(c, b, hostLayout{}, dev, s)
}

// readable prepares a payload in the arena for the driver. The device reads the bulk area itself; what came in the
// ring is copied by the driver's staging.
func (w *Worker) readable(r reference) gpubackend.Result {
	if r.kind == wire.BufferBulk {
		return w.registerBulk()
	}
	w.state.Count(handover.BytesCopied, r.bytes)
	return gpubackend.Success
}

// whenTaken answers a copy from the arena when its source may be changed. What came in the ring has been staged by the
// driver. The bulk area is registered, so that the device reads it in its own time: the call waits for the stream.
func (w *Worker) whenTaken(c *call, r reference, s gpubackend.Stream, result gpubackend.Result) gpubackend.Result {
	if result != gpubackend.Success || r.kind != wire.BufferBulk || c.flags&wire.CommandFlagReply == 0 {
		return result
	}
	return w.whenDone(c, s)
}

// fetch copies to the bulk area, which the driver knows as host memory of this process, and answers when it is there.
func (w *Worker) fetch(c *call, bulk []byte, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
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
func (w *Worker) copyPinned(c *call, dir direction, m *mapping, r reference, dev uint64, s gpubackend.Stream) gpubackend.Result {
	host := m.address + r.mapOffset()
	dst, src := dev, host
	if dir == toHost {
		dst, src = host, dev
	}
	w.state.Count(handover.BytesMapped, r.bytes)
	w.queued.add(r.bytes)
	if result := w.driver.Copy(dst, src, r.bytes, s); result != gpubackend.Success {
		return result
	}
	if c.word(5)&wire.CopyFlagBlocking != 0 {
		return w.synchronize(c, waitStream, uint64(s))
	}
	return gpubackend.Success
}

// copyMapped starts a copy through the mover.
func (w *Worker) copyMapped(c *call, dir direction, m *mapping, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
	if w.mover == nil {
		return gpubackend.NotSupported
	}
	if c.flags&wire.CommandFlagReply == 0 && !c.part() {
		return gpubackend.InvalidValue
	}
	m.users++
	w.state.Count(handover.BytesMapped, dev.bytes())
	op := &copyOp{dir: dir, dev: dev, stream: s, mapping: m, host: host}
	if w.straight(c, op) {
		op.loan = w.lend(dev.address, dev.bytes())
	}
	return w.startCopy(c, op)
}

// straight says whether a copy may go straight between guest pages and the memory that the guest process allocated. A lone one
// to the device that would have to wait for earlier work may not: CUDA lets the caller go on as soon as the source has been read.
func (w *Worker) straight(c *call, op *copyOp) bool {
	if !op.dev.contiguous() || op.dev.bytes() == 0 {
		return false
	}
	if op.dir == toHost || c.part() {
		return true
	}
	op.settled = w.driver.ContextQuery() == gpubackend.Success
	return op.settled
}

// startCopy makes the call wait for its copy.
func (w *Worker) startCopy(c *call, op *copyOp) gpubackend.Result {
	op.context = c.context
	if result := w.advance(op); result != gpubackend.NotReady {
		return result
	}
	x := waiter{
		kind: waitCopy, slot: c.slot, seq: c.seq, reply: c.flags&wire.CommandFlagReply != 0, context: c.context, copy: op,
	}
	if c.part() {
		x.part = w.partsOf(c)
		x.part.running++
	}
	w.waiters = append(w.waiters, x)
	return pending
}

// runCopyBox copies rows: device address, pitch, slice, host reference, length (or a second device address, 0),
// pitch, slice, width, height, depth, kind, stream, flags.
func runCopyBox(w *Worker, c *call) gpubackend.Result {
	dev := box{c.word(0), c.word(1), c.word(2), c.word(7), c.word(8), c.word(9)}
	host := hostLayout{pitch: c.word(5), slice: c.word(6)}
	s, result := w.findStream(c, c.word(11))
	if result != gpubackend.Success {
		return result
	}
	if !dev.valid(dev.pitch, dev.slice) || !dev.valid(host.pitch, host.slice) {
		return gpubackend.InvalidValue
	}
	w.state.Count(handover.Copies, 1)
	kind := c.word(10)
	if kind == boxDtoD {
		return w.driver.CopyBox(&gpubackend.Box{
			Dst: dev.address, DstPitch: dev.pitch, DstSlice: dev.slice, Src: c.word(3), SrcPitch: host.pitch, SrcSlice: host.slice,
			Width: dev.width, Height: dev.height, Depth: dev.depth,
		}, s)
	}
	r := c.reference(3)
	if kind > boxDtoH || dev.extent(host.pitch, host.slice) > r.bytes {
		return gpubackend.InvalidValue
	}
	return w.copyBoxHost(c, direction(kind == boxHtoD), r, host, dev, s)
}

// Kinds of CopyBox.
const (
	boxHtoD = iota
	boxDtoH
	boxDtoD
)

func (w *Worker) copyBoxHost(c *call, dir direction, r reference, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
	if r.kind != wire.BufferMap {
		return w.copyBoxInline(c, dir, r, host, dev, s)
	}
	m, result := w.mapped(r, dir == toHost)
	if result != gpubackend.Success {
		return result
	}
	if !w.isAtAddress(m, r) {
		host.offset = r.mapOffset()
		return w.copyMapped(c, dir, m, host, dev, s)
	}
	at := m.address + r.mapOffset()
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
	if c.word(12)&wire.CopyFlagBlocking != 0 {
		return w.synchronize(c, waitStream, uint64(s))
	}
	return gpubackend.Success
}

// copyBoxInline copies rows from or to the arena, one by one.
func (w *Worker) copyBoxInline(c *call, dir direction, r reference, host hostLayout, dev box, s gpubackend.Stream) gpubackend.Result {
	b, result := w.inPlace(c, r)
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
		if r.kind != wire.BufferBulk || c.flags&wire.CommandFlagReply == 0 {
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

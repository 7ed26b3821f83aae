// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend"
)

const (
	// quickBytes is the size up to which a copy or fill that needs not wait is done at once.
	quickBytes = 64 << 10
	// maxHeld bounds the sources of copies that wait for their stream.
	maxHeld = 256 << 20
)

// reaches tells whether a copy or fill may touch the range: it must lie in one allocation or in registered memory.
func (d *Device) reaches(addr, n uint64, write bool) bool {
	if !d.space.inWindow(addr) {
		return d.space.table.Load().covers(addr, n, write)
	}
	base, size, ok := d.space.heap.Find(addr)
	if _, freed := d.freeing[base]; !ok || freed {
		return false
	}
	return n <= size-(addr-base)
}

// span is a range of addresses that a task reads or writes.
type span struct {
	addr, bytes uint64
	write       bool
}

// transfer queues work on memory in a stream. It checks now and again when the work begins, since registered
// memory may be gone by then.
func (d *Device) transfer(handle gpubackend.Stream, spans []span, run func()) gpubackend.Result {
	s, result := d.target(handle)
	if result != gpubackend.Success {
		return result
	}
	total := uint64(0)
	for _, p := range spans {
		if !d.reaches(p.addr, p.bytes, p.write) {
			return gpubackend.InvalidValue
		}
		total += p.bytes
	}
	t := &task{class: memory, ctx: s.ctx, quick: total <= quickBytes}
	t.run = func() {
		table := d.space.table.Load()
		for _, p := range spans {
			if !table.covers(p.addr, p.bytes, p.write) {
				d.fail(s.ctx, gpubackend.IllegalAddress)
				return
			}
		}
		run()
	}
	d.enqueue(s, t)
	return gpubackend.Success
}

// Copy implements gpubackend.Driver.
func (d *Device) Copy(dst, src, n uint64, s gpubackend.Stream) gpubackend.Result {
	if n == 0 {
		_, result := d.target(s)
		return result
	}
	return d.transfer(s, []span{{dst, n, true}, {src, n, false}}, func() { copy(bytesAt(dst, n), bytesAt(src, n)) })
}

// MemcpyDtoDAsync implements gpubackend.Driver.
func (d *Device) MemcpyDtoDAsync(dst, src, n uint64, s gpubackend.Stream) gpubackend.Result {
	return d.Copy(dst, src, n, s)
}

// CopyIn implements gpubackend.Driver. A source whose stream is busy is kept as a copy; it waits only when
// very much is kept already.
func (d *Device) CopyIn(dst uint64, src []byte, handle gpubackend.Stream) gpubackend.Result {
	s, result := d.target(handle)
	n := uint64(len(src))
	if result != gpubackend.Success || n == 0 {
		return result
	}
	if !d.reaches(dst, n, true) {
		return gpubackend.InvalidValue
	}
	if d.scheduler.allDone(d.dependencies(s)) {
		copy(bytesAt(dst, n), src)
		return gpubackend.Success
	}
	if !d.hold(n) {
		return gpubackend.OutOfMemory
	}
	kept := bytes.Clone(src)
	t := &task{class: memory, ctx: s.ctx, then: func() { d.held -= n }}
	t.run = func() {
		if !d.space.table.Load().covers(dst, n, true) {
			d.fail(s.ctx, gpubackend.IllegalAddress)
			return
		}
		copy(bytesAt(dst, n), kept)
	}
	d.enqueue(s, t)
	return gpubackend.Success
}

// hold accounts for n bytes kept until their copy is done.
func (d *Device) hold(n uint64) bool {
	s := d.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	fits := func() bool { return d.held == 0 || d.held+n <= maxHeld }
	if !s.waitLocked(fits) {
		return false
	}
	d.held += n
	return true
}

// CopyOut implements gpubackend.Driver.
func (d *Device) CopyOut(dst []byte, src uint64) gpubackend.Result {
	if _, result := d.context(); result != gpubackend.Success {
		return result
	}
	n := uint64(len(dst))
	if n > 0 && !d.reaches(src, n, false) {
		return gpubackend.InvalidValue
	}
	copy(dst, bytesAt(src, n))
	return gpubackend.Success
}

// CopyBox implements gpubackend.Driver.
func (d *Device) CopyBox(b *gpubackend.Box, s gpubackend.Stream) gpubackend.Result {
	if b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		_, result := d.target(s)
		return result
	}
	dst, ok := extent(b.Width, b.Height, b.Depth, b.DstPitch, b.DstSlice)
	src, ok2 := extent(b.Width, b.Height, b.Depth, b.SrcPitch, b.SrcSlice)
	if !ok || !ok2 {
		return gpubackend.InvalidValue
	}
	box := *b
	return d.transfer(s, []span{{b.Dst, dst, true}, {b.Src, src, false}}, func() { copyBox(&box) })
}

func copyBox(b *gpubackend.Box) {
	for z := range b.Depth {
		for y := range b.Height {
			dst, src := b.Dst+z*b.DstSlice+y*b.DstPitch, b.Src+z*b.SrcSlice+y*b.SrcPitch
			copy(bytesAt(dst, b.Width), bytesAt(src, b.Width))
		}
	}
}

// extent is the size of the range that holds all rows of a box. Rows and planes must not overlap.
func extent(width, height, depth, pitch, slice uint64) (uint64, bool) {
	high, planes := bits.Mul64(depth-1, slice)
	high2, rows := bits.Mul64(height-1, pitch)
	plane, carry := bits.Add64(rows, width, 0)
	total, carry2 := bits.Add64(planes, plane, 0)
	if high|high2|carry|carry2 != 0 || height > 1 && pitch < width || depth > 1 && slice < plane {
		return 0, false
	}
	return total, true
}

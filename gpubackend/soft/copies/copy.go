// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"bytes"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// Copy implements gpubackend.Driver.
func (c *Copies) Copy(dst, src, n uint64, h gpubackend.Stream) gpubackend.Result {
	s, result := c.options.Streams.Target(h)
	if result != gpubackend.Success || n == 0 {
		return result
	}
	if s.Recording() {
		return c.options.Streams.Record(s, &gpubackend.Node{
			Type: gpubackend.NodeMemcpy,
			Copy: gpubackend.Box{
				Dst: dst, DstPitch: n, DstSlice: n, Src: src, SrcPitch: n, SrcSlice: n, Width: n,
				Height: 1, Depth: 1,
			},
		})
	}
	return c.transfer(s, copyOrFill{
		[]span{{dst, n, true}, {src, n, false}},
		func() { copy(space.Bytes(dst, n), space.Bytes(src, n)) },
	})
}

// MemcpyDtoDAsync implements gpubackend.Driver.
func (c *Copies) MemcpyDtoDAsync(dst, src, n uint64, s gpubackend.Stream) gpubackend.Result {
	return c.Copy(dst, src, n, s)
}

// CopyIn implements gpubackend.Driver. While the stream is busy a copy of the source is kept; the
// call waits only when very much is kept already.
func (c *Copies) CopyIn(dst uint64, src []byte, handle gpubackend.Stream) gpubackend.Result {
	s, result := c.options.Streams.Target(handle)
	n := uint64(len(src))
	if result != gpubackend.Success || n == 0 {
		return result
	}
	if result := s.Refuse(); result != gpubackend.Success {
		return result
	}
	if !c.options.Memory.Reaches(dst, n, true) {
		return gpubackend.InvalidValue
	}
	if c.options.Scheduler.AllDone(c.options.Streams.Dependencies(s)) {
		copy(space.Bytes(dst, n), src)
		return gpubackend.Success
	}
	if !c.held.Take(n) {
		return gpubackend.OutOfMemory
	}
	kept := bytes.Clone(src)
	t := &scheduler.Task{Class: scheduler.Memory, Domain: s.Context().Domain,
		Then: c.held.Return(n), Payload: n}
	t.Run = func() {
		if !c.options.Memory.Space().Covers(dst, n, true) {
			s.Context().Fail(gpubackend.IllegalAddress)
			return
		}
		copy(space.Bytes(dst, n), kept)
	}
	c.options.Streams.Enqueue(s, t)
	return gpubackend.Success
}

// CopyOut implements gpubackend.Driver.
func (c *Copies) CopyOut(dst []byte, src uint64) gpubackend.Result {
	if _, result := c.options.Contexts.Current(); result != gpubackend.Success {
		return result
	}
	n := uint64(len(dst))
	if n > 0 && !c.options.Memory.Reaches(src, n, false) {
		return gpubackend.InvalidValue
	}
	copy(dst, space.Bytes(src, n))
	return gpubackend.Success
}

// MemcpyPeerAsync implements gpubackend.Driver. Addresses say on which GPU memory is.
func (c *Copies) MemcpyPeerAsync(
	dst uint64, to gpubackend.Context, src uint64, from gpubackend.Context, n uint64,
	s gpubackend.Stream,
) gpubackend.Result {
	for _, h := range []gpubackend.Context{to, from} {
		if _, _, result := c.options.Contexts.Find(uint64(h)); result != gpubackend.Success {
			return result
		}
	}
	return c.MemcpyDtoDAsync(dst, src, n, s)
}

// CopyBox implements gpubackend.Driver.
func (c *Copies) CopyBox(b *gpubackend.Box, h gpubackend.Stream) gpubackend.Result {
	s, result := c.options.Streams.Target(h)
	if result != gpubackend.Success || b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return result
	}
	if s.Recording() {
		return c.options.Streams.Record(s, &gpubackend.Node{Type: gpubackend.NodeMemcpy, Copy: *b})
	}
	m, result := copyOf(b)
	if result != gpubackend.Success {
		return result
	}
	return c.transfer(s, m)
}

// copyOf is a copy of rows.
func copyOf(b *gpubackend.Box) (copyOrFill, gpubackend.Result) {
	if b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return copyOrFill{}, gpubackend.InvalidValue
	}
	dst, ok := extent(b.Width, b.Height, b.Depth, b.DstPitch, b.DstSlice)
	src, ok2 := extent(b.Width, b.Height, b.Depth, b.SrcPitch, b.SrcSlice)
	if !ok || !ok2 {
		return copyOrFill{}, gpubackend.InvalidValue
	}
	box := *b
	return copyOrFill{[]span{{b.Dst, dst, true}, {b.Src, src, false}}, func() { copyBox(&box) }},
		gpubackend.Success
}

func copyBox(b *gpubackend.Box) {
	for z := range b.Depth {
		for y := range b.Height {
			dst, src := b.Dst+z*b.DstSlice+y*b.DstPitch, b.Src+z*b.SrcSlice+y*b.SrcPitch
			copy(space.Bytes(dst, b.Width), space.Bytes(src, b.Width))
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

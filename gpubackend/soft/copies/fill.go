// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// fill queues a memset of height rows of width elements of the given size in bytes.
func (c *Copies) fill(
	dst, pitch, value, size, width, height uint64, h gpubackend.Stream,
) gpubackend.Result {
	s, result := c.options.Streams.Target(h)
	if result != gpubackend.Success || width == 0 || height == 0 {
		return result
	}
	f := gpubackend.Fill{Dst: dst, Pitch: pitch, Value: value, Element: size, Width: width,
		Height: height}
	if s.Recording() {
		return c.options.Streams.Record(s, &gpubackend.Node{Type: gpubackend.NodeMemset, Fill: f})
	}
	m, result := fillOf(&f)
	if result != gpubackend.Success {
		return result
	}
	if !c.fills(s.Context(), &m) {
		return gpubackend.InvalidValue
	}
	return c.transfer(s, m)
}

// fills says whether the context's GPU reaches the memory to be filled. Copies go everywhere.
func (c *Copies) fills(ctx *contexts.Context, m *copyOrFill) bool {
	to := m.spans[0]
	return c.options.Memory.Space().View(ctx.GPU).Covers(to.addr, to.bytes, true)
}

// fillOf describes a memset. Elements have the sizes of registers.
func fillOf(f *gpubackend.Fill) (copyOrFill, gpubackend.Result) {
	dst, pitch, element := f.Dst, f.Pitch, f.Element
	if element == 0 || element > 8 || element&(element-1) != 0 || f.Width == 0 || f.Height == 0 ||
		f.Width > 1<<62/element || dst%element != 0 || f.Height > 1 && pitch%element != 0 {
		return copyOrFill{}, gpubackend.InvalidValue
	}
	row, height, value := f.Width*element, f.Height, f.Value
	total, ok := extent(row, height, 1, pitch, 0)
	if !ok {
		return copyOrFill{}, gpubackend.InvalidValue
	}
	return copyOrFill{[]span{{dst, total, true}}, func() {
		if height > 1 && pitch == row {
			row, height = total, 1
		}
		for y := range height {
			fillBytes(space.Bytes(dst+y*pitch, row), value, int(element))
		}
	}}, gpubackend.Success
}

// fillBytes repeats the low size bytes of value in b, whose length is a multiple of size.
func fillBytes(b []byte, value uint64, size int) {
	var pattern [8]byte
	binary.LittleEndian.PutUint64(pattern[:], value)
	for done := copy(b, pattern[:size]); done < len(b); {
		done += copy(b[done:], b[:min(done, 32<<10)])
	}
}

// MemsetD8Async implements gpubackend.Driver.
func (c *Copies) MemsetD8Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return c.fill(dst, 0, value, 1, n, 1, s)
}

// MemsetD16Async implements gpubackend.Driver.
func (c *Copies) MemsetD16Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return c.fill(dst, 0, value, 2, n, 1, s)
}

// MemsetD32Async implements gpubackend.Driver.
func (c *Copies) MemsetD32Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return c.fill(dst, 0, value, 4, n, 1, s)
}

// MemsetD2D8Async implements gpubackend.Driver.
func (c *Copies) MemsetD2D8Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	return c.fill(dst, pitch, value, 1, width, height, s)
}

// MemsetD2D16Async implements gpubackend.Driver.
func (c *Copies) MemsetD2D16Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	return c.fill(dst, pitch, value, 2, width, height, s)
}

// MemsetD2D32Async implements gpubackend.Driver.
func (c *Copies) MemsetD2D32Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	return c.fill(dst, pitch, value, 4, width, height, s)
}

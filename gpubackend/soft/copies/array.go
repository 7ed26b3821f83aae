// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// maxCoordinate keeps sums and products of coordinates from overflowing.
const maxCoordinate = 1 << 40

// boxAt is where a box is in memory: its first byte, and the distances between rows and between
// planes.
type boxAt struct{ at, pitch, slice uint64 }

// placeOf finds one side of a copy of a box of that size. A box must lie in its array.
func (c *Copies) placeOf(
	side cudaabi.Memcpy3DSide, width, height, depth uint64,
) (boxAt, gpubackend.Result) {
	x, y, z := side.XInBytes(), side.Y(), side.Z()
	if x > maxCoordinate || y > maxCoordinate || z > maxCoordinate {
		return boxAt{}, gpubackend.InvalidValue
	}
	if side.MemoryType() != cudaabi.MemoryTypeArray {
		pitch, rows := side.Pitch(), side.Height()
		if pitch > maxCoordinate || rows > 1<<20 {
			return boxAt{}, gpubackend.InvalidValue
		}
		slice := pitch * rows
		return boxAt{side.Device() + z*slice + y*pitch + x, pitch, slice}, gpubackend.Success
	}
	a, result := c.options.Textures.Array(gpubackend.Array(side.Array()))
	if result != gpubackend.Success {
		return boxAt{}, result
	}
	m := &a.Image
	if x+width > m.Pitch || y+height > uint64(m.Height) || z+depth > uint64(m.Depth) {
		return boxAt{}, gpubackend.InvalidValue
	}
	return boxAt{m.Base + z*m.Slice + y*m.Pitch + x, m.Pitch, m.Slice}, gpubackend.Success
}

// CopyArray implements gpubackend.Driver. Captured, it becomes a copy of the memory that the array
// has.
func (c *Copies) CopyArray(b []byte, s gpubackend.Stream) gpubackend.Result {
	if _, result := c.options.Contexts.Current(); result != gpubackend.Success {
		return result
	}
	m := cudaabi.Memcpy3D(b)
	box := gpubackend.Box{Width: m.WidthInBytes(), Height: m.Height(), Depth: m.Depth()}
	if box.Width > maxCoordinate || box.Height > maxCoordinate || box.Depth > maxCoordinate {
		return gpubackend.InvalidValue
	}
	src, result := c.placeOf(m.Src(), box.Width, box.Height, box.Depth)
	if result != gpubackend.Success {
		return result
	}
	dst, result := c.placeOf(m.Dst(), box.Width, box.Height, box.Depth)
	if result != gpubackend.Success {
		return result
	}
	box.Src, box.SrcPitch, box.SrcSlice = src.at, src.pitch, src.slice
	box.Dst, box.DstPitch, box.DstSlice = dst.at, dst.pitch, dst.slice
	return c.CopyBox(&box, s)
}

// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// copySide is one side of a CUDA_MEMCPY3D: where in it the side's fields are.
type copySide struct{ x, y, z, kind, device, array, pitch, height int }

var (
	copySource = copySide{0, 8, 16, 32, 48, 56, 72, 80}
	copyTarget = copySide{88, 96, 104, 120, 136, 144, 160, 168}
)

// copyWidth is where the size of the box is in a CUDA_MEMCPY3D: width in bytes, height, depth.
const copyWidth = 176

// memoryArray is CU_MEMORYTYPE_ARRAY.
const memoryArray = 3

// maxCoordinate keeps sums and products of coordinates from overflowing.
const maxCoordinate = 1 << 40

// place is where a box is in memory: its first byte, and the distances of rows and planes.
type place struct{ at, pitch, slice uint64 }

// placeOf finds one side of a copy of a box of that size. A box must lie in its array.
func (d *Device) placeOf(b []byte, side copySide, width, height, depth uint64) (place, gpubackend.Result) {
	field := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	x, y, z := field(side.x), field(side.y), field(side.z)
	if x > maxCoordinate || y > maxCoordinate || z > maxCoordinate {
		return place{}, gpubackend.InvalidValue
	}
	if binary.LittleEndian.Uint32(b[side.kind:]) != memoryArray {
		pitch, rows := field(side.pitch), field(side.height)
		if pitch > maxCoordinate || rows > 1<<20 {
			return place{}, gpubackend.InvalidValue
		}
		slice := pitch * rows
		return place{field(side.device) + z*slice + y*pitch + x, pitch, slice}, gpubackend.Success
	}
	a, result := d.array(gpubackend.Array(field(side.array)))
	if result != gpubackend.Success {
		return place{}, result
	}
	m := &a.image
	if x+width > m.Pitch || y+height > uint64(m.Height) || z+depth > uint64(m.Depth) {
		return place{}, gpubackend.InvalidValue
	}
	return place{m.Base + z*m.Slice + y*m.Pitch + x, m.Pitch, m.Slice}, gpubackend.Success
}

// CopyArray implements gpubackend.Driver. Captured, it becomes a copy of the memory that the array has.
func (d *Device) CopyArray(b []byte, s gpubackend.Stream) gpubackend.Result {
	if _, result := d.Current(); result != gpubackend.Success {
		return result
	}
	field := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	box := gpubackend.Box{Width: field(copyWidth), Height: field(copyWidth + 8), Depth: field(copyWidth + 16)}
	if box.Width > maxCoordinate || box.Height > maxCoordinate || box.Depth > maxCoordinate {
		return gpubackend.InvalidValue
	}
	src, result := d.placeOf(b, copySource, box.Width, box.Height, box.Depth)
	if result != gpubackend.Success {
		return result
	}
	dst, result := d.placeOf(b, copyTarget, box.Width, box.Height, box.Depth)
	if result != gpubackend.Success {
		return result
	}
	box.Src, box.SrcPitch, box.SrcSlice = src.at, src.pitch, src.slice
	box.Dst, box.DstPitch, box.DstSlice = dst.at, dst.pitch, dst.slice
	return d.CopyBox(&box, s)
}

// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/reach"
)

// arrayUnit is what an array's memory is taken to be a multiple of.
const arrayUnit = 64 << 10

// formatBytes is the size of an element's channel (CUarray_format), 4 for those not listed.
var formatBytes = map[uint32]uint64{1: 1, 2: 2, 3: 4, 8: 1, 9: 2, 10: 4, 0x10: 2, 0x20: 4}

// arrayBytes estimates an array's memory; bounds keep the product from overflowing.
func arrayBytes(width, height, depth uint64, format, channels uint32, levels uint64) (uint64, bool) {
	element, ok := formatBytes[format]
	if !ok {
		element = 4
	}
	if width == 0 || width > 1<<32 || height > 1<<20 || depth > 1<<20 || channels > 4 {
		return 0, false
	}
	rows := max(height, 1) * max(depth, 1)
	bytes := width * element * uint64(max(channels, 1))
	if rows > 1<<60/bytes {
		return 0, false
	}
	bytes *= rows
	if levels > 1 {
		bytes += bytes / 2
	}
	return (bytes + arrayUnit - 1) &^ (arrayUnit - 1), true
}

// ArrayCreate makes a one- or two-dimensional array.
func (x *Textures) ArrayCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	le := binary.LittleEndian
	bytes, ok := arrayBytes(le.Uint64(desc), le.Uint64(desc[8:]), 0, le.Uint32(desc[16:]), le.Uint32(desc[20:]), 1)
	h, r := x.charges.Make(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := x.calls.ArrayCreate(desc)
		return uint64(h), r
	})
	return gpubackend.Array(h), r
}

// Array3DCreate makes an array.
func (x *Textures) Array3DCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	bytes, ok := array3DBytes(desc, 1)
	h, r := x.charges.Make(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := x.calls.Array3DCreate(desc)
		return uint64(h), r
	})
	return gpubackend.Array(h), r
}

// MipmappedArrayCreate makes an array of levels.
func (x *Textures) MipmappedArrayCreate(desc []byte, levels uint64) (gpubackend.MipmappedArray, gpubackend.Result) {
	bytes, ok := array3DBytes(desc, levels)
	h, r := x.charges.Make(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := x.calls.MipmappedArrayCreate(desc, levels)
		return uint64(h), r
	})
	return gpubackend.MipmappedArray(h), r
}

func array3DBytes(desc []byte, levels uint64) (uint64, bool) {
	le := binary.LittleEndian
	return arrayBytes(le.Uint64(desc), le.Uint64(desc[8:]), le.Uint64(desc[16:]), le.Uint32(desc[24:]), le.Uint32(desc[28:]), levels)
}

// ArrayDestroy gives back what the array counted for.
func (x *Textures) ArrayDestroy(a gpubackend.Array) gpubackend.Result {
	r := x.calls.ArrayDestroy(a)
	if r == gpubackend.Success {
		x.charges.Drop(uint64(a))
	}
	return r
}

// MipmappedArrayDestroy gives back what the array counted for.
func (x *Textures) MipmappedArrayDestroy(a gpubackend.MipmappedArray) gpubackend.Result {
	r := x.calls.MipmappedArrayDestroy(a)
	if r == gpubackend.Success {
		x.charges.Drop(uint64(a))
	}
	return r
}

// CopyArray queues a copy between arrays and device memory.
func (x *Textures) CopyArray(memcpy3D []byte, s gpubackend.Stream) gpubackend.Result {
	const source, target = 0, 88
	for _, at := range []int{source, target} {
		if binary.LittleEndian.Uint32(memcpy3D[at+32:]) != reach.MemoryDevice {
			continue
		}
		if _, r := x.ranges.At(binary.LittleEndian.Uint64(memcpy3D[at+48:]), 1, at == target); r != gpubackend.Success {
			return r
		}
	}
	b := cmem.Copied(memcpy3D, 0)
	defer b.Free()
	return x.calls.Memcpy3DAsync(b, s)
}

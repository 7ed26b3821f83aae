// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// arrayUnit is the size to whose multiple an array's memory is assumed to be rounded.
const arrayUnit = 64 << 10

// formatBytes is the size of an element's channel, 4 for those not listed.
var formatBytes = map[uint32]uint64{
	cudaabi.ArrayFormatUnsignedInt8: 1, cudaabi.ArrayFormatUnsignedInt16: 2,
	cudaabi.ArrayFormatUnsignedInt32: 4, cudaabi.ArrayFormatSignedInt8: 1,
	cudaabi.ArrayFormatSignedInt16: 2, cudaabi.ArrayFormatSignedInt32: 4,
	cudaabi.ArrayFormatHalf: 2, cudaabi.ArrayFormatFloat: 4,
}

// Bounds of what is estimated, beyond those of any GPU.
const (
	maxWidth    = 1 << 32
	maxRows     = 1 << 20 // and as many planes
	maxChannels = 4
)

// arrayBytes estimates an array's memory; bounds keep the product from overflowing.
func arrayBytes(
	width, height, depth uint64, format, channels uint32, levels uint64,
) (uint64, bool) {
	element, ok := formatBytes[format]
	if !ok {
		element = 4
	}
	if width == 0 || width > maxWidth || height > maxRows || depth > maxRows ||
		channels > maxChannels {
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
	a := cudaabi.ArrayDescriptor(desc)
	bytes, ok := arrayBytes(a.Width(), a.Height(), 0, a.Format(), a.NumChannels(), 1)
	h, r := x.charges.Make(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := x.calls.ArrayCreate(desc)
		x.note(uint64(h), described(desc), 0, r)
		return uint64(h), r
	})
	return gpubackend.Array(h), r
}

// Array3DCreate makes an array.
func (x *Textures) Array3DCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	bytes, ok := array3DBytes(desc, 1)
	h, r := x.charges.Make(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := x.calls.Array3DCreate(desc)
		x.note(uint64(h), desc, 0, r)
		return uint64(h), r
	})
	return gpubackend.Array(h), r
}

// MipmappedArrayCreate makes an array of levels.
func (x *Textures) MipmappedArrayCreate(
	desc []byte, levels uint64,
) (gpubackend.MipmappedArray, gpubackend.Result) {
	bytes, ok := array3DBytes(desc, levels)
	h, r := x.charges.Make(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := x.calls.MipmappedArrayCreate(desc, levels)
		x.note(uint64(h), desc, max(levels, 1), r)
		return uint64(h), r
	})
	return gpubackend.MipmappedArray(h), r
}

func array3DBytes(desc []byte, levels uint64) (uint64, bool) {
	a := cudaabi.Array3DDescriptor(desc)
	return arrayBytes(a.Width(), a.Height(), a.Depth(), a.Format(), a.NumChannels(), levels)
}

// ArrayDestroy gives back what the array counted for.
func (x *Textures) ArrayDestroy(a gpubackend.Array) gpubackend.Result {
	r := x.calls.ArrayDestroy(a)
	if r == gpubackend.Success {
		x.charges.Drop(uint64(a))
		delete(x.arrays, uint64(a))
	}
	return r
}

// MipmappedArrayDestroy gives back what the array counted for.
func (x *Textures) MipmappedArrayDestroy(a gpubackend.MipmappedArray) gpubackend.Result {
	r := x.calls.MipmappedArrayDestroy(a)
	if r == gpubackend.Success {
		x.charges.Drop(uint64(a))
		delete(x.arrays, uint64(a))
	}
	return r
}

// CopyArray queues a copy between arrays and device memory.
func (x *Textures) CopyArray(memcpy3D []byte, s gpubackend.Stream) gpubackend.Result {
	b := cmem.Copied(memcpy3D, 0)
	defer b.Free()
	m := cudaabi.Memcpy3D(b.Bytes())
	for i, side := range [...]cudaabi.Memcpy3DSide{m.Src(), m.Dst()} {
		if side.MemoryType() != cudaabi.MemoryTypeDevice {
			continue
		}
		at, r := x.ranges.At(side.Device(), 1, i == 1)
		if r != gpubackend.Success {
			return r
		}
		side.SetDevice(at.Address)
	}
	return x.calls.Memcpy3DAsync(b, s)
}

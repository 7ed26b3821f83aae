// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// arrayCharge is what an array or a module counts for, and of whom.
type arrayCharge struct {
	gpu   int
	bytes uint64
	owner *context
}

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

// charged makes an array or a module by create, if there is memory for it.
func (d *Device) charged(bytes uint64, ok bool, create func() (uint64, gpubackend.Result)) (uint64, gpubackend.Result) {
	if !d.usable() {
		return 0, gpubackend.InvalidContext
	}
	if !ok {
		return 0, gpubackend.InvalidValue
	}
	g := d.state.gpu
	if !d.charge(g, bytes) {
		return 0, gpubackend.OutOfMemory
	}
	h, r := create()
	if r != gpubackend.Success {
		d.gpus[g].heap.Uncharge(bytes)
		return 0, r
	}
	if d.arrays == nil {
		d.arrays = map[uint64]arrayCharge{}
	}
	d.arrays[h] = arrayCharge{g, bytes, d.state.home()}
	return h, r
}

func (d *Device) uncharge(h uint64) {
	if a, ok := d.arrays[h]; ok {
		d.gpus[a.gpu].heap.Uncharge(a.bytes)
		delete(d.arrays, h)
	}
}

// unchargeContext counts the arrays of a context that is gone no more.
func (d *Device) unchargeContext(c *context) {
	for h, a := range d.arrays {
		if a.owner == c {
			d.uncharge(h)
		}
	}
}

// ArrayCreate makes a one- or two-dimensional array.
func (d *Device) ArrayCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	le := binary.LittleEndian
	bytes, ok := arrayBytes(le.Uint64(desc), le.Uint64(desc[8:]), 0, le.Uint32(desc[16:]), le.Uint32(desc[20:]), 1)
	h, r := d.charged(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := d.calls.ArrayCreate(desc)
		return uint64(h), r
	})
	return gpubackend.Array(h), r
}

// Array3DCreate makes an array.
func (d *Device) Array3DCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	bytes, ok := array3DBytes(desc, 1)
	h, r := d.charged(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := d.calls.Array3DCreate(desc)
		return uint64(h), r
	})
	return gpubackend.Array(h), r
}

// MipmappedArrayCreate makes an array of levels.
func (d *Device) MipmappedArrayCreate(desc []byte, levels uint64) (gpubackend.MipmappedArray, gpubackend.Result) {
	bytes, ok := array3DBytes(desc, levels)
	h, r := d.charged(bytes, ok, func() (uint64, gpubackend.Result) {
		h, r := d.calls.MipmappedArrayCreate(desc, levels)
		return uint64(h), r
	})
	return gpubackend.MipmappedArray(h), r
}

func array3DBytes(desc []byte, levels uint64) (uint64, bool) {
	le := binary.LittleEndian
	return arrayBytes(le.Uint64(desc), le.Uint64(desc[8:]), le.Uint64(desc[16:]), le.Uint32(desc[24:]), le.Uint32(desc[28:]), levels)
}

// ArrayDestroy gives back what the array counted for.
func (d *Device) ArrayDestroy(a gpubackend.Array) gpubackend.Result {
	r := d.calls.ArrayDestroy(a)
	if r == gpubackend.Success {
		d.uncharge(uint64(a))
	}
	return r
}

// MipmappedArrayDestroy gives back what the array counted for.
func (d *Device) MipmappedArrayDestroy(a gpubackend.MipmappedArray) gpubackend.Result {
	r := d.calls.MipmappedArrayDestroy(a)
	if r == gpubackend.Success {
		d.uncharge(uint64(a))
	}
	return r
}

// TexObjectCreate makes a texture.
func (d *Device) TexObjectCreate(resource, texture, view []byte) (uint64, gpubackend.Result) {
	if !d.roomForObject() {
		return 0, gpubackend.OutOfMemory
	}
	h, r := d.NewTexture(resource, texture, view)
	return d.remember(&d.textures, h, r)
}

// SurfObjectCreate makes a surface.
func (d *Device) SurfObjectCreate(resource []byte) (uint64, gpubackend.Result) {
	if !d.roomForObject() {
		return 0, gpubackend.OutOfMemory
	}
	h, r := d.NewSurface(resource)
	return d.remember(&d.surfaces, h, r)
}

// TexObjectDestroy destroys a texture.
func (d *Device) TexObjectDestroy(t uint64) gpubackend.Result {
	if !d.forgetObject(d.textures, t) {
		return gpubackend.InvalidValue
	}
	return d.calls.TexObjectDestroy(t)
}

// SurfObjectDestroy destroys a surface.
func (d *Device) SurfObjectDestroy(s uint64) gpubackend.Result {
	if !d.forgetObject(d.surfaces, s) {
		return gpubackend.InvalidValue
	}
	return d.calls.SurfObjectDestroy(s)
}

// CopyArray queues a copy between arrays and device memory.
func (d *Device) CopyArray(memcpy3D []byte, s gpubackend.Stream) gpubackend.Result {
	const source, target = 0, 88
	for _, at := range []int{source, target} {
		if binary.LittleEndian.Uint32(memcpy3D[at+32:]) != memoryDevice {
			continue
		}
		if _, r := d.reach(binary.LittleEndian.Uint64(memcpy3D[at+48:]), 1, at == target); r != gpubackend.Success {
			return r
		}
	}
	b := cmem.Copied(memcpy3D, 0)
	defer b.Free()
	return d.Memcpy3DAsync(b, s)
}

// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// Flags of arrays. The others mean nothing here or aren't supported.
const arrayFlags = cudaabi.Array3DLayered | cudaabi.Array3DSurfaceLdst | cudaabi.Array3DCubemap |
	cudaabi.Array3DTextureGather

// lastFormat is beyond all of CUarray_format in CUDA 13.
const lastFormat = 0xff

// maxTexelLevels is how many levels the largest image has.
const maxTexelLevels = 18

// maxArrays bounds a context's arrays, mipmapped ones counting once.
const maxArrays = 1 << 18

// arrayDesc is a CUDA_ARRAY3D_DESCRIPTOR. A height or depth of 0 is a dimension that isn't there.
type arrayDesc struct {
	width, height, depth uint64
	format               sampler.Format
	channels, flags      uint32
}

func decodeArrayDesc(b []byte) arrayDesc {
	a := cudaabi.Array3DDescriptor(b)
	return arrayDesc{
		a.Width(), a.Height(), a.Depth(), sampler.Format(a.Format()), a.NumChannels(), a.Flags(),
	}
}

// array is a CUarray: rows of texels in device memory, without gaps.
type array struct {
	Context *contexts.Context
	handle  uint64
	desc    arrayDesc
	Image   sampler.Texels
	levels  *mipmappedArray // that it is a level of, nil if none
}

// Owner implements contexts.Owned.
func (a *array) Owner() *contexts.Context { return a.Context }

// mipmappedArray is a CUmipmappedArray.
type mipmappedArray struct {
	Context *contexts.Context
	handle  uint64
	base    uint64
	levels  []*array
}

// Owner implements contexts.Owned.
func (m *mipmappedArray) Owner() *contexts.Context { return m.Context }

// check says why there can't be an array of that description, or Success.
func (a *arrayDesc) check() gpubackend.Result {
	switch {
	case a.flags&^arrayFlags != 0:
		return gpubackend.NotSupported
	case a.format.Bytes() == 0 && a.format > lastFormat:
		return gpubackend.InvalidValue
	case a.format.Bytes() == 0:
		return gpubackend.NotSupported // block-compressed and planar formats
	case a.channels != 1 && a.channels != 2 && a.channels != 4, a.width == 0, !a.fits():
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// fits checks the sizes.
func (a *arrayDesc) fits() bool {
	layered, cube := a.flags&cudaabi.Array3DLayered != 0, a.flags&cudaabi.Array3DCubemap != 0
	switch {
	case cube:
		faces := uint64(6)
		if layered {
			faces = chip.MaxCubeLayers
		}
		return a.width == a.height && a.width <= chip.MaxLayeredWidth && a.depth > 0 &&
			a.depth <= faces && a.depth%6 == 0
	case layered:
		return a.width <= chip.MaxLayeredWidth && a.height <= chip.MaxLayeredWidth && a.depth > 0 &&
			a.depth <= chip.MaxLayers
	case a.depth > 0:
		return a.height > 0 && a.width <= chip.MaxVolume && a.height <= chip.MaxVolume &&
			a.depth <= chip.MaxVolume
	}
	return a.width <= chip.MaxImageWidth && a.height <= chip.MaxImageHeight
}

func (a *arrayDesc) texel() uint64 { return a.format.Bytes() * uint64(a.channels) }

// image lays the texels out from base on. The sizes have been checked: no product overflows.
func (a *arrayDesc) image(base uint64) (image sampler.Texels, bytes uint64) {
	height, depth := max(a.height, 1), max(a.depth, 1)
	pitch := a.width * a.texel()
	return sampler.Texels{
		Base: base, Width: uint32(a.width), Height: uint32(height), Depth: uint32(depth),
		Pitch: pitch, Slice: pitch * height,
	}, pitch * height * depth
}

// level describes a level of a mipmapped array: half the size of the one before, layers aside.
func (a *arrayDesc) level(n uint) arrayDesc {
	d := *a
	half := func(size uint64) uint64 { return min(size, max(size>>n, 1)) }
	d.width, d.height = half(a.width), half(a.height)
	if a.flags&(cudaabi.Array3DLayered|cudaabi.Array3DCubemap) == 0 {
		d.depth = half(a.depth)
	}
	return d
}

// newArray enters an array that has its memory.
func (x *Textures) newArray(
	c *contexts.Context, desc arrayDesc, base uint64, levels *mipmappedArray,
) *array {
	a := &array{Context: c, desc: desc, levels: levels}
	a.Image, _ = desc.image(base)
	a.handle = x.options.Handles.Add(a)
	return a
}

// ArrayCreate implements gpubackend.Driver: a CUDA_ARRAY_DESCRIPTOR.
func (x *Textures) ArrayCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	a := cudaabi.ArrayDescriptor(desc)
	return x.createArray(arrayDesc{
		width: a.Width(), height: a.Height(), format: sampler.Format(a.Format()),
		channels: a.NumChannels(),
	})
}

// Array3DCreate implements gpubackend.Driver: a CUDA_ARRAY3D_DESCRIPTOR.
func (x *Textures) Array3DCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	return x.createArray(decodeArrayDesc(desc))
}

func (x *Textures) createArray(desc arrayDesc) (gpubackend.Array, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result == gpubackend.Success {
		result = desc.check()
	}
	if result != gpubackend.Success {
		return 0, result
	}
	_, bytes := desc.image(0)
	base, result := x.arrayMemory(c, bytes)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Array(x.newArray(c, desc, base, nil).handle), gpubackend.Success
}

// arrayMemory takes memory for an array.
func (x *Textures) arrayMemory(c *contexts.Context, bytes uint64) (uint64, gpubackend.Result) {
	if len(x.arrays[c]) >= maxArrays {
		return 0, gpubackend.OutOfMemory
	}
	base, result := x.options.Memory.Alloc(ledger.Arrays, bytes)
	if result == gpubackend.Success {
		if x.arrays[c] == nil {
			x.arrays[c] = make(map[uint64]bool)
		}
		x.arrays[c][base] = true
	}
	return base, result
}

// freeArray gives back an array's memory when the work that was queued before is done.
func (x *Textures) freeArray(c *contexts.Context, base uint64) {
	delete(x.arrays[c], base)
	x.options.Memory.DeferFree(base)
	x.options.Memory.Reclaim()
}

// Array finds an array.
func (x *Textures) Array(h gpubackend.Array) (*array, gpubackend.Result) {
	return handles.Of[*array](x.options.Handles, uint64(h), gpubackend.InvalidHandle)
}

// ArrayDestroy implements gpubackend.Driver. The levels of a mipmapped array go with that.
func (x *Textures) ArrayDestroy(h gpubackend.Array) gpubackend.Result {
	a, result := x.Array(h)
	if result != gpubackend.Success {
		return result
	}
	if a.levels != nil {
		return gpubackend.InvalidHandle
	}
	x.options.Handles.Remove(a.handle)
	x.freeArray(a.Context, a.Image.Base)
	return gpubackend.Success
}

// ArrayGetDescriptor implements gpubackend.Driver.
func (x *Textures) ArrayGetDescriptor(desc []byte, h gpubackend.Array) gpubackend.Result {
	a, result := x.Array(h)
	if result != gpubackend.Success {
		return result
	}
	out := cudaabi.ArrayDescriptor(desc)
	out.SetWidth(a.desc.width)
	out.SetHeight(a.desc.height)
	out.SetFormat(uint32(a.desc.format))
	out.SetNumChannels(a.desc.channels)
	return gpubackend.Success
}

// Array3DGetDescriptor implements gpubackend.Driver.
func (x *Textures) Array3DGetDescriptor(desc []byte, h gpubackend.Array) gpubackend.Result {
	a, result := x.Array(h)
	if result != gpubackend.Success {
		return result
	}
	out := cudaabi.Array3DDescriptor(desc)
	out.SetWidth(a.desc.width)
	out.SetHeight(a.desc.height)
	out.SetDepth(a.desc.depth)
	out.SetFormat(uint32(a.desc.format))
	out.SetNumChannels(a.desc.channels)
	out.SetFlags(a.desc.flags)
	return gpubackend.Success
}

// levelCount is how many levels there can be: until all sizes are 1.
func (a *arrayDesc) levelCount() uint64 {
	size := max(a.width, a.height)
	if a.flags&(cudaabi.Array3DLayered|cudaabi.Array3DCubemap) == 0 {
		size = max(size, a.depth)
	}
	return min(uint64(bits.Len64(size)), maxTexelLevels)
}

// MipmappedArrayCreate implements gpubackend.Driver. There are at most as many levels as the sizes
// have.
func (x *Textures) MipmappedArrayCreate(
	b []byte, levels uint64,
) (gpubackend.MipmappedArray, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	desc := decodeArrayDesc(b)
	if result == gpubackend.Success {
		result = desc.check()
	}
	if result == gpubackend.Success && levels == 0 {
		result = gpubackend.InvalidValue
	}
	if result != gpubackend.Success {
		return 0, result
	}
	levels = min(levels, desc.levelCount())
	offsets := make([]uint64, levels)
	total := uint64(0)
	for i := range offsets {
		level := desc.level(uint(i))
		_, bytes := level.image(0)
		offsets[i] = total
		total += (bytes + chip.TextureAlignment - 1) &^ (chip.TextureAlignment - 1)
	}
	base, result := x.arrayMemory(c, total)
	if result != gpubackend.Success {
		return 0, result
	}
	m := &mipmappedArray{Context: c, base: base}
	for i, offset := range offsets {
		m.levels = append(m.levels, x.newArray(c, desc.level(uint(i)), base+offset, m))
	}
	m.handle = x.options.Handles.Add(m)
	return gpubackend.MipmappedArray(m.handle), gpubackend.Success
}

// mipmapped finds a mipmapped array.
func (x *Textures) mipmapped(h gpubackend.MipmappedArray) (*mipmappedArray, gpubackend.Result) {
	return handles.Of[*mipmappedArray](x.options.Handles, uint64(h), gpubackend.InvalidHandle)
}

// MipmappedArrayDestroy implements gpubackend.Driver.
func (x *Textures) MipmappedArrayDestroy(h gpubackend.MipmappedArray) gpubackend.Result {
	m, result := x.mipmapped(h)
	if result != gpubackend.Success {
		return result
	}
	for _, a := range m.levels {
		x.options.Handles.Remove(a.handle)
	}
	x.options.Handles.Remove(m.handle)
	x.freeArray(m.Context, m.base)
	return gpubackend.Success
}

// MipmappedArrayGetLevel implements gpubackend.Driver. A level is the same array each time.
func (x *Textures) MipmappedArrayGetLevel(
	h gpubackend.MipmappedArray, level uint64,
) (gpubackend.Array, gpubackend.Result) {
	m, result := x.mipmapped(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if level >= uint64(len(m.levels)) {
		return 0, gpubackend.InvalidValue
	}
	return gpubackend.Array(m.levels[level].handle), gpubackend.Success
}

// DeviceGetTexture1DLinearMaxWidth implements gpubackend.Driver.
func (x *Textures) DeviceGetTexture1DLinearMaxWidth(
	format, channels, dev uint64,
) (uint64, gpubackend.Result) {
	if result := x.options.Contexts.CheckDevice(dev); result != gpubackend.Success {
		return 0, result
	}
	if sampler.Format(format).Bytes() == 0 || channels != 1 && channels != 2 && channels != 4 {
		return 0, gpubackend.InvalidValue
	}
	return chip.MaxLinearTexels, gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// Flags of textures. Filtering doesn't cross the edges of a cube's faces here, whatever the flag
// says.
const textureFlags = cudaabi.TextureFlagReadAsInteger | cudaabi.TextureFlagNormalizedCoordinates |
	cudaabi.TextureFlagSRGB | cudaabi.TextureFlagDisableTrilinearOptimization |
	cudaabi.TextureFlagSeamlessCubemap

const (
	// maxObjects bounds textures and surfaces.
	maxObjects = 1 << 16
	// objectBytes is what one counts for of the host's memory.
	objectBytes = 4 << 10
)

// objects are texture and surface objects by number, as kernels find them.
type objects struct {
	byNumber sync.Map // uint64: *object
	count    int
	next     uint64 // the number of the one that is made next; 0: any
}

// object is a CUtexObject or CUsurfObject.
type object struct {
	Context *contexts.Context
	texture *sampler.Texture
	surface *sampler.Surface
}

func (o *objects) find(number uint64) *object {
	found, _ := o.byNumber.Load(number)
	object, _ := found.(*object)
	return object
}

// Texture implements simt.Objects.
func (o *objects) Texture(number uint64) *sampler.Texture {
	if found := o.find(number); found != nil {
		return found.texture
	}
	return nil
}

// Surface implements simt.Objects.
func (o *objects) Surface(number uint64) *sampler.Surface {
	if found := o.find(number); found != nil {
		return found.surface
	}
	return nil
}

// addObject gives a texture or surface its number.
func (x *Textures) addObject(o *object) (uint64, gpubackend.Result) {
	if x.objects.count >= maxObjects || x.options.Host.Take(objectBytes) != nil {
		return 0, gpubackend.OutOfMemory
	}
	x.objects.count++
	number := x.number()
	x.objects.byNumber.Store(number, o)
	return number, gpubackend.Success
}

// dropObject forgets one; kernels queued before still find it.
func (x *Textures) dropObject(number uint64, of func(*object) bool) gpubackend.Result {
	if _, result := x.options.Contexts.Current(); result != gpubackend.Success {
		return result
	}
	o := x.objects.find(number)
	if o == nil || !of(o) {
		return gpubackend.InvalidValue
	}
	x.objects.count--
	// From now on it can't be found to be dropped again.
	x.objects.byNumber.Store(number, &object{texture: o.texture, surface: o.surface})
	x.options.Memory.After(func() {
		x.objects.byNumber.Delete(number)
		x.options.Host.Give(objectBytes)
	})
	return gpubackend.Success
}

// dropObjects forgets those of a context that is idle.
func (x *Textures) dropObjects(c *contexts.Context) {
	x.objects.byNumber.Range(func(number, found any) bool {
		if found.(*object).Context == c {
			x.objects.byNumber.Delete(number)
			x.objects.count--
			x.options.Host.Give(objectBytes)
		}
		return true
	})
}

// source is what a texture reads: images, and what is in them.
type source struct {
	levels   []sampler.Texels
	format   sampler.Format
	channels uint32
	layered  bool
	filtered bool // not linear memory, for which there are no filters and modes
}

func (s *source) texel() uint64 { return s.format.Bytes() * uint64(s.channels) }

func arraySource(a *array) source {
	return source{[]sampler.Texels{a.Image}, a.desc.format, a.desc.channels,
		a.desc.flags&cudaabi.Array3DLayered != 0, true}
}

func mipmappedSource(m *mipmappedArray) source {
	s := arraySource(m.levels[0])
	for _, a := range m.levels[1:] {
		s.levels = append(s.levels, a.Image)
	}
	return s
}

// channelsKnown checks the format of memory that isn't an array.
func (s *source) channelsKnown() gpubackend.Result {
	if s.format.Bytes() == 0 {
		return gpubackend.NotSupported
	}
	if s.channels != 1 && s.channels != 2 && s.channels != 4 {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// linearSource is device memory without rows, from an aligned address on.
func (x *Textures) linearSource(
	addr, bytes uint64, format sampler.Format, channels uint32,
) (source, gpubackend.Result) {
	s := source{format: format, channels: channels}
	if result := s.channelsKnown(); result != gpubackend.Success {
		return s, result
	}
	width := bytes / s.texel()
	if addr%chip.TextureAlignment != 0 || width == 0 || width > chip.MaxLinearTexels ||
		!x.options.Memory.Reaches(addr, bytes, false) {
		return s, gpubackend.InvalidValue
	}
	s.levels = []sampler.Texels{{
		Base: addr, Width: uint32(width), Height: 1, Depth: 1, Pitch: bytes,
		Slice: bytes}}
	return s, gpubackend.Success
}

// pitchSource is device memory with rows.
func (x *Textures) pitchSource(
	addr, width, height, pitch uint64, format sampler.Format, channels uint32,
) (source, gpubackend.Result) {
	s := source{format: format, channels: channels, filtered: true}
	if result := s.channelsKnown(); result != gpubackend.Success {
		return s, result
	}
	if width == 0 || width > chip.MaxPitchWidth || height == 0 || height > chip.MaxPitchHeight ||
		pitch > chip.MaxPitch ||
		pitch < width*s.texel() || pitch%chip.TexturePitchAlignment != 0 ||
		addr%chip.TextureAlignment != 0 ||
		!x.options.Memory.Reaches(addr, pitch*(height-1)+width*s.texel(), false) {
		return s, gpubackend.InvalidValue
	}
	s.levels = []sampler.Texels{{
		Base: addr, Width: uint32(width), Height: uint32(height), Depth: 1, Pitch: pitch,
		Slice: pitch * height,
	}}
	return s, gpubackend.Success
}

// resourceOf reads a CUDA_RESOURCE_DESC.
func (x *Textures) resourceOf(b []byte) (source, gpubackend.Result) {
	r := cudaabi.ResourceDesc(b)
	switch r.ResType() {
	case cudaabi.ResourceArray:
		a, result := x.Array(gpubackend.Array(r.Array()))
		if result != gpubackend.Success {
			return source{}, result
		}
		return arraySource(a), gpubackend.Success
	case cudaabi.ResourceMipmappedArray:
		m, result := x.mipmapped(gpubackend.MipmappedArray(r.MipmappedArray()))
		if result != gpubackend.Success {
			return source{}, result
		}
		return mipmappedSource(m), gpubackend.Success
	case cudaabi.ResourceLinear:
		return x.linearSource(r.LinearDevPtr(), r.LinearSizeInBytes(),
			sampler.Format(r.LinearFormat()),
			r.LinearNumChannels())
	case cudaabi.ResourcePitch2D:
		return x.pitchSource(r.Pitch2DDevPtr(), r.Pitch2DWidth(), r.Pitch2DHeight(),
			r.Pitch2DPitchInBytes(),
			sampler.Format(r.Pitch2DFormat()), r.Pitch2DNumChannels())
	}
	return source{}, gpubackend.InvalidValue
}

// sampling is how a texture is read: what CUDA_TEXTURE_DESC and a texture reference have in common.
type sampling struct {
	address                       [3]uint32
	filter, levelFilter           uint32
	flags                         uint32
	anisotropy                    uint32 // kept; filtering has none
	levelBias, minLevel, maxLevel float32
	border                        [4]float32
}

// samplingOf reads a CUDA_TEXTURE_DESC.
func samplingOf(b []byte) (s sampling, result gpubackend.Result) {
	t := cudaabi.TextureDesc(b)
	for i := range s.address {
		s.address[i] = t.AddressMode(i)
	}
	s.filter, s.flags, s.anisotropy = t.FilterMode(), t.Flags(), t.MaxAnisotropy()
	s.levelFilter, s.levelBias = t.MipmapFilterMode(), t.MipmapLevelBias()
	s.minLevel, s.maxLevel = t.MinMipmapLevelClamp(), t.MaxMipmapLevelClamp()
	for i := range s.border {
		s.border[i] = t.BorderColor(i)
	}
	for _, mode := range s.address {
		if mode > uint32(sampler.AddressBorder) {
			return s, gpubackend.InvalidValue
		}
	}
	if s.filter > cudaabi.FilterModeLinear || s.levelFilter > cudaabi.FilterModeLinear ||
		s.flags&^textureFlags != 0 {
		return s, gpubackend.InvalidValue
	}
	return s, gpubackend.Success
}

// textureOf makes what kernels use of a source and how it is read.
func textureOf(from *source, how *sampling) *sampler.Texture {
	t := &sampler.Texture{
		Format: from.format, Channels: from.channels, Levels: from.levels, Layered: from.layered,
		ReadAsInteger: how.flags&cudaabi.TextureFlagReadAsInteger != 0,
		SRGB:          how.flags&cudaabi.TextureFlagSRGB != 0,
	}
	if !from.filtered {
		t.Address = [3]sampler.AddressMode{sampler.AddressClamp, sampler.AddressClamp,
			sampler.AddressClamp}
		return t
	}
	for i, mode := range how.address {
		t.Address[i] = sampler.AddressMode(mode)
	}
	t.Normalized = how.flags&cudaabi.TextureFlagNormalizedCoordinates != 0
	t.Linear, t.LinearLevels = how.filter == cudaabi.FilterModeLinear,
		how.levelFilter == cudaabi.FilterModeLinear
	t.LevelBias, t.MinLevel, t.MaxLevel, t.Border = how.levelBias, how.minLevel, how.maxLevel,
		how.border
	return t
}

// TexObjectCreate implements gpubackend.Driver. A description of the texture must be there.
func (x *Textures) TexObjectCreate(resource, texture, view []byte) (uint64, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	from, result := x.resourceOf(resource)
	if result != gpubackend.Success {
		return 0, result
	}
	if len(texture) == 0 {
		return 0, gpubackend.InvalidValue
	}
	how, result := samplingOf(texture)
	if result == gpubackend.Success && len(view) != 0 {
		result = from.view(view)
	}
	if result != gpubackend.Success {
		return 0, result
	}
	return x.addObject(&object{Context: c, texture: textureOf(&from, &how)})
}

// TexObjectDestroy implements gpubackend.Driver.
func (x *Textures) TexObjectDestroy(number uint64) gpubackend.Result {
	return x.dropObject(number,
		func(o *object) bool { return o.Context != nil && o.texture != nil })
}

// surfaceOf makes what kernels use of an array that allows surfaces.
func surfaceOf(a *array) (*sampler.Surface, gpubackend.Result) {
	if a.desc.flags&cudaabi.Array3DSurfaceLdst == 0 {
		return nil, gpubackend.InvalidValue
	}
	layered := a.desc.flags&cudaabi.Array3DLayered != 0
	return &sampler.Surface{Texels: a.Image, Layered: layered, Texel: a.desc.texel()},
		gpubackend.Success
}

// SurfObjectCreate implements gpubackend.Driver.
func (x *Textures) SurfObjectCreate(resource []byte) (uint64, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	r := cudaabi.ResourceDesc(resource)
	if r.ResType() != cudaabi.ResourceArray {
		return 0, gpubackend.InvalidValue
	}
	a, result := x.Array(gpubackend.Array(r.Array()))
	if result != gpubackend.Success {
		return 0, result
	}
	s, result := surfaceOf(a)
	if result != gpubackend.Success {
		return 0, result
	}
	return x.addObject(&object{Context: c, surface: s})
}

// SurfObjectDestroy implements gpubackend.Driver.
func (x *Textures) SurfObjectDestroy(number uint64) gpubackend.Result {
	return x.dropObject(number,
		func(o *object) bool { return o.Context != nil && o.surface != nil })
}

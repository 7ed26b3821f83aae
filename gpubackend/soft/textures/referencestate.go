// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"encoding/binary"
	"math"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// overrideFormat is required by CUDA's documentation; the runtime binds without it, and sets the
// format afterwards.
const overrideFormat = cudaabi.TextureArrayOverrideFormat

// unbind forgets what a reference reads.
func (r *textureReference) unbind() {
	r.array, r.mipmapped, r.linear, r.rows = nil, nil, memoryRange{}, memoryRows{}
}

// texel is the size of a texel by the reference's format.
func (r *textureReference) texel() uint64 { return r.format.Bytes() * uint64(r.channels) }

// adopt takes over the format of an array, if the flags say so or if the reference's format has
// another size.
func (r *textureReference) adopt(desc *arrayDesc, flags uint64) {
	if flags&overrideFormat != 0 || r.texel() != desc.texel() {
		r.format, r.channels = desc.format, desc.channels
	}
}

// TexRefSetArray implements gpubackend.Driver.
func (x *Textures) TexRefSetArray(
	h gpubackend.TextureReference, a gpubackend.Array, flags uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	array, result := x.Array(a)
	if result != gpubackend.Success {
		return result
	}
	if flags&^overrideFormat != 0 {
		return gpubackend.InvalidValue
	}
	r.unbind()
	r.array = array
	r.adopt(&array.desc, flags)
	return gpubackend.Success
}

// TexRefSetMipmappedArray implements gpubackend.Driver.
func (x *Textures) TexRefSetMipmappedArray(
	h gpubackend.TextureReference, mh gpubackend.MipmappedArray, flags uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	m, result := x.mipmapped(mh)
	if result != gpubackend.Success {
		return result
	}
	if flags&^overrideFormat != 0 {
		return gpubackend.InvalidValue
	}
	r.unbind()
	r.mipmapped = m
	r.adopt(&m.levels[0].desc, flags)
	return gpubackend.Success
}

// TexRefSetAddress implements gpubackend.Driver. Textures begin at aligned addresses; offset says
// how far behind that the memory begins.
func (x *Textures) TexRefSetAddress(
	h gpubackend.TextureReference, addr, bytes uint64,
) (offset uint64, result gpubackend.Result) {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if addr == 0 && bytes == 0 {
		r.unbind() // as the runtime does
		return 0, gpubackend.Success
	}
	offset = addr % chip.TextureAlignment
	if !x.options.Memory.Reaches(addr, bytes, false) || bytes == 0 ||
		bytes/r.texel() > chip.MaxLinearTexels {
		return 0, gpubackend.InvalidValue
	}
	r.unbind()
	r.linear = memoryRange{addr - offset, bytes + offset}
	return offset, gpubackend.Success
}

// TexRefSetAddress2D implements gpubackend.Driver. The format is the description's: a
// CUDA_ARRAY_DESCRIPTOR.
func (x *Textures) TexRefSetAddress2D(
	h gpubackend.TextureReference, desc []byte, addr, pitch uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	a := cudaabi.ArrayDescriptor(desc)
	rows := memoryRows{addr, a.Width(), a.Height(), pitch}
	format, channels := sampler.Format(a.Format()), a.NumChannels()
	_, result = x.pitchSource(addr, rows.width, rows.height, pitch, format, channels)
	if result != gpubackend.Success {
		return result
	}
	r.unbind()
	r.rows, r.format, r.channels = rows, format, channels
	return gpubackend.Success
}

// TexRefSetFormat implements gpubackend.Driver. With an array or rows bound, texels keep their
// size.
func (x *Textures) TexRefSetFormat(
	h gpubackend.TextureReference, format, channels uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	s := source{format: sampler.Format(format), channels: uint32(channels)}
	if result := s.channelsKnown(); result != gpubackend.Success {
		return gpubackend.InvalidValue
	}
	if s.texel() != r.texel() && (r.array != nil || r.mipmapped != nil || r.rows != memoryRows{}) {
		return gpubackend.InvalidValue
	}
	r.format, r.channels = s.format, s.channels
	return gpubackend.Success
}

// TexRefSetAddressMode implements gpubackend.Driver.
func (x *Textures) TexRefSetAddressMode(
	h gpubackend.TextureReference, dim, mode uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	if dim >= uint64(len(r.sampling.address)) || mode > uint64(sampler.AddressBorder) {
		return gpubackend.InvalidValue
	}
	r.sampling.address[dim] = uint32(mode)
	return gpubackend.Success
}

// TexRefSetFilterMode implements gpubackend.Driver.
func (x *Textures) TexRefSetFilterMode(
	h gpubackend.TextureReference, mode uint64,
) gpubackend.Result {
	return x.setFilter(h, mode, func(s *sampling) *uint32 { return &s.filter })
}

// TexRefSetMipmapFilterMode implements gpubackend.Driver.
func (x *Textures) TexRefSetMipmapFilterMode(
	h gpubackend.TextureReference, mode uint64,
) gpubackend.Result {
	return x.setFilter(h, mode, func(s *sampling) *uint32 { return &s.levelFilter })
}

func (x *Textures) setFilter(
	h gpubackend.TextureReference, mode uint64, field func(*sampling) *uint32,
) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	if mode > cudaabi.FilterModeLinear {
		return gpubackend.InvalidValue
	}
	*field(&r.sampling) = uint32(mode)
	return gpubackend.Success
}

// TexRefSetMipmapLevelBias implements gpubackend.Driver.
func (x *Textures) TexRefSetMipmapLevelBias(
	h gpubackend.TextureReference, bias uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result == gpubackend.Success {
		r.sampling.levelBias = math.Float32frombits(uint32(bias))
	}
	return result
}

// TexRefSetMipmapLevelClamp implements gpubackend.Driver.
func (x *Textures) TexRefSetMipmapLevelClamp(
	h gpubackend.TextureReference, least, most uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result == gpubackend.Success {
		r.sampling.minLevel = math.Float32frombits(uint32(least))
		r.sampling.maxLevel = math.Float32frombits(uint32(most))
	}
	return result
}

// TexRefSetMaxAnisotropy implements gpubackend.Driver.
func (x *Textures) TexRefSetMaxAnisotropy(
	h gpubackend.TextureReference, most uint64,
) gpubackend.Result {
	r, result := x.changing(h)
	if result == gpubackend.Success {
		r.sampling.anisotropy = uint32(most)
	}
	return result
}

// TexRefSetBorderColor implements gpubackend.Driver.
func (x *Textures) TexRefSetBorderColor(
	h gpubackend.TextureReference, color []byte,
) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	for i := range r.sampling.border {
		r.sampling.border[i] = math.Float32frombits(binary.LittleEndian.Uint32(color[4*i:]))
	}
	return gpubackend.Success
}

// TexRefSetFlags implements gpubackend.Driver.
func (x *Textures) TexRefSetFlags(h gpubackend.TextureReference, flags uint64) gpubackend.Result {
	r, result := x.changing(h)
	if result != gpubackend.Success {
		return result
	}
	if flags&^textureFlags != 0 {
		return gpubackend.InvalidValue
	}
	r.sampling.flags = uint32(flags)
	return gpubackend.Success
}

// TexRefGetAddress implements gpubackend.Driver.
func (x *Textures) TexRefGetAddress(h gpubackend.TextureReference) (uint64, gpubackend.Result) {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if addr := max(r.linear.addr, r.rows.addr); addr != 0 {
		return addr, gpubackend.Success
	}
	return 0, gpubackend.InvalidValue
}

// TexRefGetArray implements gpubackend.Driver.
func (x *Textures) TexRefGetArray(
	h gpubackend.TextureReference,
) (gpubackend.Array, gpubackend.Result) {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if r.array == nil {
		return 0, gpubackend.InvalidValue
	}
	return gpubackend.Array(r.array.handle), gpubackend.Success
}

// TexRefGetMipmappedArray implements gpubackend.Driver.
func (x *Textures) TexRefGetMipmappedArray(
	h gpubackend.TextureReference,
) (gpubackend.MipmappedArray, gpubackend.Result) {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if r.mipmapped == nil {
		return 0, gpubackend.InvalidValue
	}
	return gpubackend.MipmappedArray(r.mipmapped.handle), gpubackend.Success
}

// TexRefGetAddressMode implements gpubackend.Driver.
func (x *Textures) TexRefGetAddressMode(
	h gpubackend.TextureReference, dim uint64,
) (uint64, gpubackend.Result) {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if dim >= uint64(len(r.sampling.address)) {
		return 0, gpubackend.InvalidValue
	}
	return uint64(r.sampling.address[dim]), gpubackend.Success
}

// TexRefGetFilterMode implements gpubackend.Driver.
func (x *Textures) TexRefGetFilterMode(h gpubackend.TextureReference) (uint64, gpubackend.Result) {
	return x.told(h, func(s *sampling) uint32 { return s.filter })
}

// TexRefGetMipmapFilterMode implements gpubackend.Driver.
func (x *Textures) TexRefGetMipmapFilterMode(
	h gpubackend.TextureReference,
) (uint64, gpubackend.Result) {
	return x.told(h, func(s *sampling) uint32 { return s.levelFilter })
}

// TexRefGetMipmapLevelBias implements gpubackend.Driver.
func (x *Textures) TexRefGetMipmapLevelBias(
	h gpubackend.TextureReference,
) (uint64, gpubackend.Result) {
	return x.told(h, func(s *sampling) uint32 { return math.Float32bits(s.levelBias) })
}

// TexRefGetMipmapLevelClamp implements gpubackend.Driver.
func (x *Textures) TexRefGetMipmapLevelClamp(
	h gpubackend.TextureReference,
) (least, most uint64, result gpubackend.Result) {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return 0, 0, result
	}
	return uint64(math.Float32bits(r.sampling.minLevel)),
		uint64(math.Float32bits(r.sampling.maxLevel)), result
}

// TexRefGetMaxAnisotropy implements gpubackend.Driver.
func (x *Textures) TexRefGetMaxAnisotropy(
	h gpubackend.TextureReference,
) (uint64, gpubackend.Result) {
	return x.told(h, func(s *sampling) uint32 { return s.anisotropy })
}

// TexRefGetFlags implements gpubackend.Driver.
func (x *Textures) TexRefGetFlags(h gpubackend.TextureReference) (uint64, gpubackend.Result) {
	return x.told(h, func(s *sampling) uint32 { return s.flags })
}

// told returns a number from a reference's state.
func (x *Textures) told(
	h gpubackend.TextureReference, field func(*sampling) uint32,
) (uint64, gpubackend.Result) {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return uint64(field(&r.sampling)), gpubackend.Success
}

// TexRefGetBorderColor implements gpubackend.Driver.
func (x *Textures) TexRefGetBorderColor(
	color []byte, h gpubackend.TextureReference,
) gpubackend.Result {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return result
	}
	for i, v := range r.sampling.border {
		binary.LittleEndian.PutUint32(color[4*i:], math.Float32bits(v))
	}
	return gpubackend.Success
}

// TexRefGetFormat implements gpubackend.Driver.
func (x *Textures) TexRefGetFormat(
	h gpubackend.TextureReference,
) (format, channels uint64, result gpubackend.Result) {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return 0, 0, result
	}
	return uint64(r.format), uint64(r.channels), gpubackend.Success
}

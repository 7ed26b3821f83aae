// SPDX-License-Identifier: Apache-2.0

package sampler

// Format is how a channel of a texel is stored: a CUarray_format.
type Format uint32

// Formats.
const (
	FormatUint8  Format = 1
	FormatUint16 Format = 2
	FormatUint32 Format = 3
	FormatInt8   Format = 8
	FormatInt16  Format = 9
	FormatInt32  Format = 10
	FormatHalf   Format = 16
	FormatFloat  Format = 32
)

// Bytes is the size of a channel, 0 for a format that isn't known.
func (f Format) Bytes() uint64 {
	switch f {
	case FormatUint8, FormatInt8:
		return 1
	case FormatUint16, FormatInt16, FormatHalf:
		return 2
	case FormatUint32, FormatInt32, FormatFloat:
		return 4
	}
	return 0
}

// AddressMode says what is read beyond the edges of a texture: a CUaddress_mode.
type AddressMode uint32

// Address modes.
const (
	AddressWrap AddressMode = iota
	AddressClamp
	AddressMirror
	AddressBorder
)

// Texels is a grid of them in device memory: rows, Pitch bytes apart, in planes, Slice bytes
// apart.
type Texels struct {
	Base                 uint64
	Width, Height, Depth uint32 // Depth also counts layers and faces; none is 0
	Pitch, Slice         uint64
}

// Extent is the size in bytes of the range that holds all texels.
func (m *Texels) Extent(texel uint64) uint64 {
	return uint64(m.Depth-1)*m.Slice + uint64(m.Height-1)*m.Pitch + uint64(m.Width)*texel
}

// A Texture is what kernels read by texture instructions. It isn't changed while a kernel may use
// it.
type Texture struct {
	Format   Format
	Channels uint32   // 1, 2 or 4
	Levels   []Texels // from the largest on, at least one
	Layered  bool

	// ReadAsInteger keeps 8- and 16-bit integers from becoming fractions of their largest value.
	ReadAsInteger bool
	// SRGB makes the first three channels of 8 bits linear.
	SRGB       bool
	Normalized bool // coordinates are in [0, 1)
	Linear     bool // interpolate between texels
	Address    [3]AddressMode
	Border     [4]float32

	LinearLevels       bool // interpolate between levels
	LevelBias          float32
	MinLevel, MaxLevel float32
}

// TexelBytes is the size of a texel.
func (t *Texture) TexelBytes() uint64 { return t.Format.Bytes() * uint64(t.Channels) }

// Size is the largest image, or an empty one.
func (t *Texture) Size() Texels {
	if len(t.Levels) == 0 {
		return Texels{}
	}
	return t.Levels[0]
}

// A Surface is what kernels read and write by surface instructions.
type Surface struct {
	Texels
	Layered bool
	Texel   uint64 // bytes
}

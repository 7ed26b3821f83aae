// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

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

// An Image is a grid of texels in device memory: rows, Pitch bytes apart, in planes, Slice bytes
// apart.
type Image struct {
	Base                 uint64
	Width, Height, Depth uint32 // Depth also counts layers and faces; none is 0
	Pitch, Slice         uint64
}

// extent is the size in bytes of the range that holds all texels.
func (m *Image) extent(texel uint64) uint64 {
	return uint64(m.Depth-1)*m.Slice + uint64(m.Height-1)*m.Pitch + uint64(m.Width)*texel
}

// A Texture is what kernels read by texture instructions. It isn't changed while a kernel may use
// it.
type Texture struct {
	Format   Format
	Channels uint32  // 1, 2 or 4
	Levels   []Image // from the largest on, at least one
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

// texelBytes is the size of a texel.
func (t *Texture) texelBytes() uint64 { return t.Format.Bytes() * uint64(t.Channels) }

// A Surface is what kernels read and write by surface instructions.
type Surface struct {
	Image
	Layered bool
	Texel   uint64 // bytes
}

// A Binding is what a texture or surface reference of a module refers to in a launch; nothing when
// it is zero.
type Binding struct {
	Texture *Texture
	Surface *Surface
}

// Objects finds texture and surface objects by the number that kernels have of them. It must be
// safe for concurrent use; nil is an unknown number.
type Objects interface {
	Texture(number uint64) *Texture
	Surface(number uint64) *Surface
}

// A Reference is a texture or surface reference that a program declares.
type Reference struct {
	Name    string
	Surface bool
}

// addReference gives a reference its address, which holds its number.
func (p *Program) addReference(v *ptx.Variable) {
	p.addresses[v] = ReferenceWindow | uint64(len(p.references))
	p.references = append(p.references, Reference{v.Name, v.Opaque == ptx.SurfaceRef})
}

// binding returns what the reference at an address is bound to.
func (r *launchRun) binding(addr uint64) (Binding, bool) {
	i := addr - ReferenceWindow
	if i >= uint64(len(r.prog.references)) {
		return Binding{}, false
	}
	if i >= uint64(len(r.Bindings)) {
		return Binding{}, true
	}
	return r.Bindings[i], true
}

// texture finds the texture of a number or reference and makes sure that its memory is there. It
// returns nil after a fault, and emptyTexture for a reference that isn't bound.
func (w *warp) texture(number uint64, lane int) *Texture {
	run := w.block.run
	var t *Texture
	b, isReference := run.binding(number)
	switch {
	case isReference && b.Texture == nil:
		return &emptyTexture
	case isReference:
		t = b.Texture
	case run.Objects != nil:
		t = run.Objects.Texture(number)
	}
	if t == nil {
		w.failAt(lane, cudaabi.ErrorIllegalAddress, "unknown texture %#x", number)
		return nil
	}
	for i := range t.Levels {
		if m := &t.Levels[i]; !w.cache.covers(m.Base, m.extent(t.texelBytes()), false) {
			w.failAt(lane, cudaabi.ErrorIllegalAddress, "texture %#x of memory that isn't there",
				number)
			return nil
		}
	}
	return t
}

// emptyTexture has no levels: fetches give 0.
var emptyTexture Texture

// surface is texture for surfaces. A reference that isn't bound is a fault.
func (w *warp) surface(number uint64, lane int) *Surface {
	run := w.block.run
	var s *Surface
	b, isReference := run.binding(number)
	switch {
	case isReference:
		s = b.Surface
	case run.Objects != nil:
		s = run.Objects.Surface(number)
	}
	if s == nil {
		w.failAt(lane, cudaabi.ErrorIllegalAddress, "unknown surface %#x", number)
		return nil
	}
	if !w.cache.covers(s.Base, s.extent(s.Texel), true) {
		w.failAt(lane, cudaabi.ErrorIllegalAddress, "surface %#x of memory that isn't there",
			number)
		return nil
	}
	return s
}

// covers tells whether all of a range is valid, and writable if so wanted.
func (c *memCache) covers(addr, n uint64, write bool) bool {
	for {
		if !c.find(addr, 1) || write && !c.last.writable {
			return false
		}
		got := c.last.base + c.last.size - addr
		if got >= n {
			return true
		}
		addr, n = addr+got, n-got
	}
}

// lodOf is the level of detail for steps of so many texels.
func lodOf(texels float64) float32 {
	if !(texels > 0) {
		return float32(math.Inf(-1))
	}
	return float32(math.Log2(texels))
}

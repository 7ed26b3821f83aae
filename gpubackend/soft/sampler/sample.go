// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// Filtering as the CUDA C++ Programming Guide describes it ("Texture Fetching"): weights have 8
// bits of fraction.
const (
	weightBits = 8
	weightOne  = 1 << weightBits
)

// coordLimit keeps coordinates in the range of integers.
const coordLimit = 1 << 30

// Texel is the four channels that a fetch returns: floats or integers, as bits.
type Texel [4]uint32

// interpolates tells whether texels are floats, which can be filtered.
func (t *Texture) interpolates() bool {
	switch t.Format {
	case FormatUint32, FormatInt32:
		return false
	case FormatFloat, FormatHalf:
		return true
	}
	return !t.ReadAsInteger
}

// fetch returns the texel at a place inside the image.
func (t *Texture) fetch(m *Texels, x, y, z int) Texel {
	size := t.Format.Bytes()
	at := uintptr(m.Base + uint64(z)*m.Slice + uint64(y)*m.Pitch +
		uint64(x)*size*uint64(t.Channels))
	var v Texel
	if t.Channels < 4 {
		v[3] = t.one()
	}
	if t.Format == FormatFloat {
		for c := range min(int(t.Channels), len(v)) {
			v[c] = uint32(stored(at+uintptr(4*c), 4))
		}
		return v
	}
	for c := range min(int(t.Channels), len(v)) {
		v[c] = t.channel(stored(at+uintptr(c)*uintptr(size), uint8(size)), c)
	}
	return v
}

// one is the value of the fourth channel if it isn't stored.
func (t *Texture) one() uint32 {
	if t.interpolates() {
		return math.Float32bits(1)
	}
	return 1
}

// channel turns the bits of a stored channel into those of a fetched one.
func (t *Texture) channel(v uint64, c int) uint32 {
	fraction := !t.ReadAsInteger
	switch t.Format {
	case FormatUint8:
		if fraction {
			return math.Float32bits(t.linear(float32(v)/math.MaxUint8, c))
		}
	case FormatUint16:
		if fraction {
			return math.Float32bits(float32(v) / math.MaxUint16)
		}
	case FormatInt8:
		if fraction {
			return math.Float32bits(max(float32(int8(v))/math.MaxInt8, -1))
		}
		return uint32(int8(v))
	case FormatInt16:
		if fraction {
			return math.Float32bits(max(float32(int16(v))/math.MaxInt16, -1))
		}
		return uint32(int16(v))
	case FormatHalf:
		return math.Float32bits(float32(softfloat.Half.Value(v)))
	}
	return uint32(v)
}

// linear undoes the sRGB transfer function (IEC 61966-2-1) for the colours of such a texture.
func (t *Texture) linear(v float32, c int) float32 {
	switch {
	case !t.SRGB || c == 3:
		return v
	case v <= 0.04045:
		return v / 12.92
	}
	return float32(math.Pow((float64(v)+0.055)/1.055, 2.4))
}

// Fetch returns the texel with that number in each dimension; 0 outside of the image.
func (t *Texture) Fetch(level int, x, y, z int64) Texel {
	if level < 0 || level >= len(t.Levels) {
		return Texel{}
	}
	m := &t.Levels[level]
	if uint64(x) >= uint64(m.Width) || uint64(y) >= uint64(m.Height) ||
		uint64(z) >= uint64(m.Depth) {
		return Texel{}
	}
	return t.fetch(m, int(x), int(y), int(z))
}

// fold brings a texel's number in one dimension into the image. It returns false on the border.
func fold(i, n int, mode AddressMode) (int, bool) {
	switch mode {
	case AddressWrap:
		if i %= n; i < 0 {
			i += n
		}
	case AddressMirror:
		if i %= 2 * n; i < 0 {
			i += 2 * n
		}
		if i >= n {
			i = 2*n - 1 - i
		}
	case AddressBorder:
		return i, i >= 0 && i < n
	default:
		i = min(max(i, 0), n-1)
	}
	return i, true
}

// mode is the address mode of a dimension: wrapping and mirroring are for normalized coordinates
// only.
func (t *Texture) mode(dim int) AddressMode {
	if mode := t.Address[dim]; t.Normalized || mode == AddressBorder {
		return mode
	}
	return AddressClamp
}

// place turns a coordinate into texels from the edge.
func (t *Texture) place(x float32, n uint32, mode AddressMode) float64 {
	if x != x {
		return 0
	}
	v := float64(x)
	if t.Normalized {
		switch mode {
		case AddressWrap:
			v -= math.Floor(v)
		case AddressMirror:
			v -= 2 * math.Floor(v/2)
		}
		if math.IsNaN(v) {
			return 0
		}
		v *= float64(n)
	}
	return min(max(v, -coordLimit), coordLimit)
}

// tap is where a coordinate falls: a texel, and how much of the next one counts in units of
// 1/weightOne.
type tap struct{ i, weight int }

// tap finds the tap of a coordinate. Nearest texels have no weight.
func (t *Texture) tap(x float32, n uint32, dim int, linear bool) tap {
	v := t.place(x, n, t.mode(dim))
	if !linear {
		return tap{i: int(math.Floor(v))}
	}
	fixed := int(math.Floor((v-0.5)*weightOne + 0.5))
	return tap{fixed >> weightBits, fixed & (weightOne - 1)}
}

// border is the border's colour.
func (t *Texture) border() Texel {
	var v Texel
	for c := range v {
		if t.interpolates() {
			v[c] = math.Float32bits(t.Border[c])
		} else {
			v[c] = uint32(int64(t.Border[c]))
		}
	}
	return v
}

// axis is what a sample reads in one dimension: one texel, or two with their weights.
type axis struct {
	i      [2]int
	in     [2]bool // not on the border
	weight [2]float32
}

// axis finds what a sample reads in one dimension.
func (t *Texture) axis(x float32, n uint32, dim int, linear bool) (a axis) {
	at, mode := t.tap(x, n, dim, linear), t.mode(dim)
	a.i[0], a.in[0] = fold(at.i, int(n), mode)
	a.weight[0] = float32(weightOne-at.weight) / weightOne
	if at.weight != 0 {
		a.i[1], a.in[1] = fold(at.i+1, int(n), mode)
		a.weight[1] = float32(at.weight) / weightOne
	}
	return a
}

// axes finds the axes of all dimensions. With fewer than three, the last one is the plane; a
// smaller level may have fewer planes.
func (t *Texture) axes(m *Texels, dims int, at [3]float32, plane int, linear bool) (axes [3]axis) {
	axes[0] = t.axis(at[0], m.Width, 0, linear)
	axes[1] = axis{in: [2]bool{true}, weight: [2]float32{1}}
	axes[2] = axis{i: [2]int{min(plane, int(m.Depth)-1)}, in: [2]bool{true}, weight: [2]float32{1}}
	if dims > 1 {
		axes[1] = t.axis(at[1], m.Height, 1, linear)
	}
	if dims > 2 {
		axes[2] = t.axis(at[2], m.Depth, 2, linear)
	}
	return axes
}

// sampleImage samples one level in one to three dimensions; in fewer than three, of the given
// plane.
func (t *Texture) sampleImage(m *Texels, dims int, at [3]float32, plane int) Texel {
	linear := t.Linear && t.interpolates()
	axes := t.axes(m, dims, at, plane, linear)
	if !linear {
		return t.corner(m, &axes, 0)
	}
	var sum [4]float32
	for n := range 1 << dims {
		// Texels without weight are left out: they may be infinite.
		weight := axes[0].weight[n&1] * axes[1].weight[n>>1&1] * axes[2].weight[n>>2]
		if weight == 0 {
			continue
		}
		v := t.corner(m, &axes, n)
		for c := range sum {
			sum[c] += weight * math.Float32frombits(v[c])
		}
	}
	return floats(sum)
}

// corner returns one of the texels that a sample reads: bit d of n says which of two in dimension
// d.
func (t *Texture) corner(m *Texels, axes *[3]axis, n int) Texel {
	x, y, z := n&1, n>>1&1, n>>2
	if !axes[0].in[x] || !axes[1].in[y] || !axes[2].in[z] {
		return t.border()
	}
	return t.fetch(m, axes[0].i[x], axes[1].i[y], axes[2].i[z])
}

func floats(v [4]float32) Texel {
	return Texel{math.Float32bits(v[0]), math.Float32bits(v[1]), math.Float32bits(v[2]),
		math.Float32bits(v[3])}
}

// Sample samples at a level of detail.
func (t *Texture) Sample(lod float32, dims int, at [3]float32, plane int) Texel {
	last := float64(len(t.Levels) - 1)
	level := float64(lod + t.LevelBias)
	level = min(max(level, float64(t.MinLevel)), float64(t.MaxLevel))
	if level = min(max(level, 0), last); level != level {
		level = 0
	}
	if !t.LinearLevels || !t.interpolates() {
		return t.sampleImage(&t.Levels[int(level+0.5)], dims, at, plane)
	}
	fixed := int(level*weightOne + 0.5)
	i, weight := fixed>>weightBits, fixed&(weightOne-1)
	v := t.sampleImage(&t.Levels[i], dims, at, plane)
	if weight == 0 {
		return v
	}
	next := t.sampleImage(&t.Levels[i+1], dims, at, plane)
	share := float32(weight) / weightOne
	var sum [4]float32
	for c := range sum {
		sum[c] = (1-share)*math.Float32frombits(v[c]) + share*math.Float32frombits(next[c])
	}
	return floats(sum)
}

// Gather returns one channel of the four texels that a bilinear filter would use, counter-clockwise
// from the lower left.
func (t *Texture) Gather(channel int, at [3]float32, plane int) Texel {
	m := &t.Levels[0]
	axes := t.axes(m, 2, at, plane, true)
	for d, size := range []uint32{m.Width, m.Height} {
		i := t.tap(at[d], size, d, true).i
		axes[d].i[1], axes[d].in[1] = fold(i+1, int(size), t.mode(d)) // whatever its weight
	}
	var v Texel
	for i, corner := range [4]int{2, 3, 1, 0} {
		v[i] = t.corner(m, &axes, corner)[channel]
	}
	return v
}

// face turns a direction into a face of a cube and normalized coordinates on it.
func face(at [3]float32) (int, [3]float32) {
	x, y, z := at[0], at[1], at[2]
	ax, ay, az := max(x, -x), max(y, -y), max(z, -z)
	var n int
	var s, t, major float32
	switch {
	case ax >= ay && ax >= az && x >= 0:
		n, s, t, major = 0, -z, -y, ax
	case ax >= ay && ax >= az:
		n, s, t, major = 1, z, -y, ax
	case ay >= az && y >= 0:
		n, s, t, major = 2, x, z, ay
	case ay >= az:
		n, s, t, major = 3, x, -z, ay
	case z >= 0:
		n, s, t, major = 4, x, -y, az
	default:
		n, s, t, major = 5, -x, -y, az
	}
	return n, [3]float32{(s/major + 1) / 2, (t/major + 1) / 2}
}

// Cube samples the faces of a cube, six planes from the given one on. Faces are sampled each by
// itself.
func (t *Texture) Cube(lod float32, at [3]float32, plane int) Texel {
	n, on := face(at)
	one := *t
	one.Normalized = true
	one.Address = [3]AddressMode{AddressClamp, AddressClamp, AddressClamp}
	return one.Sample(lod, 2, on, plane+n)
}

// LOD is the level of detail for steps of so many texels.
func LOD(texels float64) float32 {
	if !(texels > 0) {
		return float32(math.Inf(-1))
	}
	return float32(math.Log2(texels))
}

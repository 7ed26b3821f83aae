// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"math"
	"testing"
)

// row puts a row of texels into memory.
func row[T any](texels []T, bytes uint64) Texels {
	n := uint64(len(texels))
	return Texels{Base: put(texels), Width: uint32(n), Height: 1, Depth: 1, Pitch: n * bytes,
		Slice: n * bytes}
}

// TestAddressModes reads beyond the edges of four texels: 0, 10, 20, 30.
func TestAddressModes(t *testing.T) {
	t.Parallel()
	levels := []Texels{row([]float32{0, 10, 20, 30}, 4)}
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	tests := []struct {
		name       string
		mode       AddressMode
		normalized bool
		linear     bool
		x, want    float32
	}{
		{"inside", AddressClamp, false, false, 2.99, 20},
		{"clamp left", AddressClamp, false, false, -7, 0},
		{"clamp right", AddressClamp, false, false, 4, 30},
		{"clamp far", AddressClamp, false, false, inf, 30},
		{"no number", AddressClamp, false, false, nan, 0},
		{"border", AddressBorder, false, false, 4, -5},
		{"border inside", AddressBorder, false, false, 3.5, 30},
		{"wrap needs normalized", AddressWrap, false, false, 5, 30},
		{"normalized", AddressClamp, true, false, 0.5, 20},
		{"wrap", AddressWrap, true, false, 1.3, 10},
		{"wrap left", AddressWrap, true, false, -0.1, 30},
		{"wrap far", AddressWrap, true, false, inf, 0},
		{"mirror", AddressMirror, true, false, 1.1, 30},
		{"mirror twice", AddressMirror, true, false, 2.3, 10},
		{"mirror left", AddressMirror, true, false, -0.3, 10},
		{"centre", AddressClamp, false, true, 1.5, 10},
		{"between", AddressClamp, false, true, 2, 15},
		{"a quarter", AddressClamp, false, true, 1.75, 12.5},
		{"left of the first centre", AddressClamp, false, true, 0.2, 0},
		{"right of the last", AddressClamp, false, true, 3.9, 30},
		{"half a border", AddressBorder, false, true, 4, 12.5},
		{"half a wrap", AddressWrap, true, true, 0, 15},
		{"half a mirror", AddressMirror, true, true, 1, 30},
	}
	for _, test := range tests {
		texture := &Texture{
			Format: FormatFloat, Channels: 1, Levels: levels, Normalized: test.normalized,
			Linear:  test.linear,
			Address: [3]AddressMode{test.mode}, Border: [4]float32{-5},
		}
		v := texture.Sample(0, 1, [3]float32{test.x}, 0)
		if got := math.Float32frombits(v[0]); got != test.want {
			t.Errorf("%s: %v at %v, want %v", test.name, got, test.x, test.want)
		}
	}
}

// TestWeights compares interpolation between two texels with the exact value: weights have 8 bits
// of fraction.
func TestWeights(t *testing.T) {
	t.Parallel()
	texture := &Texture{Format: FormatFloat, Channels: 1,
		Levels: []Texels{row([]float32{0, 1}, 4)}, Linear: true}
	for i := range 1001 {
		x := 0.5 + float32(i)/1000
		got := math.Float32frombits(texture.Sample(0, 1, [3]float32{x}, 0)[0])
		if diff := math.Abs(float64(got - (x - 0.5))); diff > 1.0/512+1e-6 {
			t.Errorf("%v at %v", got, x)
		}
		if got*256 != float32(math.Round(float64(got*256))) {
			t.Errorf("%v at %v has more than 8 bits of fraction", got, x)
		}
	}
}

// TestFormats reads channels of each format.
func TestFormats(t *testing.T) {
	t.Parallel()
	bits := math.Float32bits
	tests := []struct {
		name     string
		format   Format
		bytes    []byte
		integers bool
		srgb     bool
		want     uint32
	}{
		{"uint8", FormatUint8, []byte{200}, true, false, 200},
		{"fraction of uint8", FormatUint8, []byte{51}, false, false, bits(0.2)},
		{"srgb", FormatUint8, []byte{255}, false, true, bits(1)},
		{"dark srgb", FormatUint8, []byte{5}, false, true, bits(float32(5) / 255 / 12.92)},
		{"int8", FormatInt8, []byte{0xfe}, true, false, 0xfffffffe},
		{"fraction of int8", FormatInt8, []byte{0x80}, false, false, bits(-1)},
		{"uint16", FormatUint16, []byte{1, 2}, true, false, 0x201},
		{"fraction of uint16", FormatUint16, []byte{0xff, 0xff}, false, false, bits(1)},
		{"int16", FormatInt16, []byte{0, 0x80}, true, false, 0xffff8000},
		{"fraction of int16", FormatInt16, []byte{1, 0x80}, false, false, bits(-1)},
		{"uint32", FormatUint32, []byte{1, 2, 3, 4}, false, false, 0x04030201},
		{"int32", FormatInt32, []byte{0xff, 0xff, 0xff, 0xff}, false, false, 0xffffffff},
		{"half", FormatHalf, []byte{0, 0x3e}, false, false, bits(1.5)},
		{"float", FormatFloat, []byte{0, 0, 0x20, 0x40}, false, false, bits(2.5)},
	}
	for _, test := range tests {
		texture := &Texture{
			Format: test.format, Channels: 1, Levels: []Texels{row(test.bytes, 1)},
			ReadAsInteger: test.integers, SRGB: test.srgb,
		}
		if v := texture.Fetch(0, 0, 0, 0); v[0] != test.want {
			t.Errorf("%s: %#x, want %#x", test.name, v[0], test.want)
		}
		if v := texture.Fetch(0, int64(texture.Levels[0].Width), 0, 0); v != (Texel{}) {
			t.Errorf("%s: %#x beyond the edge", test.name, v)
		}
	}
}

// TestLevels samples two levels, 8 and 100, and what is between them.
func TestLevels(t *testing.T) {
	t.Parallel()
	texture := Texture{
		Format: FormatFloat, Channels: 1,
		Levels: []Texels{row([]float32{8, 8}, 4), row([]float32{100}, 4)}, MaxLevel: 5,
	}
	between := texture
	between.LinearLevels = true
	biased := texture
	biased.LevelBias = 1
	first := texture
	first.MaxLevel = 0
	for _, test := range []struct {
		name      string
		texture   *Texture
		lod, want float32
	}{
		{"first", &texture, 0, 8}, {"nearest", &texture, 0.4, 8},
		{"nearest above", &texture, 0.6, 100},
		{"beyond", &texture, 7, 100}, {"below", &texture, -3, 8},
		{"no number", &texture, float32(math.NaN()), 8},
		{"half", &between, 0.5, 54}, {"last", &between, 1, 100}, {"bias", &biased, 0, 100},
		{"clamped", &first, 1, 8},
		{"step of two texels", &texture, LOD(2), 100}, {"no step", &texture, LOD(0), 8},
	} {
		if got := math.Float32frombits(test.texture.Sample(test.lod, 1, [3]float32{},
			0)[0]); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestCube looks along the axes: each face holds its number.
func TestCube(t *testing.T) {
	t.Parallel()
	faces := Texels{Base: put([]float32{0, 1, 2, 3, 4, 5}), Width: 1, Height: 1, Depth: 6,
		Pitch: 4, Slice: 4}
	texture := &Texture{Format: FormatFloat, Channels: 1, Levels: []Texels{faces}}
	for want, at := range [][3]float32{{2, 1, 0}, {-2, 0, 1}, {1, 2, 0}, {0, -2, 1}, {1, 0, 2},
		{0, 1, -2}} {
		if got := math.Float32frombits(texture.Cube(0, at, 0)[0]); got != float32(want) {
			t.Errorf("%v in direction %v, want %d", got, at, want)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	image := Texels{Base: put(make([]float32, 64*64)), Width: 64, Height: 64, Depth: 1,
		Pitch: 256, Slice: 64 * 256}
	t := &Texture{Format: FormatFloat, Channels: 1, Linear: true, Levels: []Texels{image}}
	for i := range b.N {
		t.Sample(0, 2, [3]float32{float32(i%64) + 0.3, 5.7}, 0)
	}
}

// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// row puts texels in a row into device memory.
func row[T any](d *device, texels []T, bytes uint64) Image {
	n := uint64(len(texels))
	return Image{Base: put(d, texels), Width: uint32(n), Height: 1, Depth: 1, Pitch: n * bytes,
		Slice: n * bytes}
}

// TestAddressModes reads beyond the edges of four texels: 0, 10, 20, 30.
func TestAddressModes(t *testing.T) {
	t.Parallel()
	d := newDevice(t, 4<<20)
	levels := []Image{row(d, []float32{0, 10, 20, 30}, 4)}
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
		v := texture.sample(0, 1, [3]float32{test.x}, 0)
		if got := math.Float32frombits(v[0]); got != test.want {
			t.Errorf("%s: %v at %v, want %v", test.name, got, test.x, test.want)
		}
	}
}

// TestWeights compares interpolation between two texels with the computed value: weights have 8
// bits of fraction.
func TestWeights(t *testing.T) {
	t.Parallel()
	d := newDevice(t, 4<<20)
	texture := &Texture{Format: FormatFloat, Channels: 1,
		Levels: []Image{row(d, []float32{0, 1}, 4)}, Linear: true}
	for i := range 1001 {
		x := 0.5 + float32(i)/1000
		got := math.Float32frombits(texture.sample(0, 1, [3]float32{x}, 0)[0])
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
	d := newDevice(t, 4<<20)
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
			Format: test.format, Channels: 1, Levels: []Image{row(d, test.bytes, 1)},
			ReadAsInteger: test.integers, SRGB: test.srgb,
		}
		if v := texture.fetchAt(0, 0, 0, 0); v[0] != test.want {
			t.Errorf("%s: %#x, want %#x", test.name, v[0], test.want)
		}
		if v := texture.fetchAt(0, int64(texture.Levels[0].Width), 0, 0); v != (texel{}) {
			t.Errorf("%s: %#x beyond the edge", test.name, v)
		}
	}
}

// TestLevels samples two levels, 8 and 100, and what is between them.
func TestLevels(t *testing.T) {
	t.Parallel()
	d := newDevice(t, 4<<20)
	texture := Texture{
		Format: FormatFloat, Channels: 1,
		Levels: []Image{row(d, []float32{8, 8}, 4), row(d, []float32{100}, 4)}, MaxLevel: 5,
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
		{"step of two texels", &texture, lodOf(2), 100}, {"no step", &texture, lodOf(0), 8},
	} {
		if got := math.Float32frombits(test.texture.sample(test.lod, 1, [3]float32{},
			0)[0]); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestCube looks along the axes: each face holds its number.
func TestCube(t *testing.T) {
	t.Parallel()
	d := newDevice(t, 4<<20)
	faces := Image{Base: put(d, []float32{0, 1, 2, 3, 4, 5}), Width: 1, Height: 1, Depth: 6,
		Pitch: 4, Slice: 4}
	texture := &Texture{Format: FormatFloat, Channels: 1, Levels: []Image{faces}}
	for want, at := range [][3]float32{{2, 1, 0}, {-2, 0, 1}, {1, 2, 0}, {0, -2, 1}, {1, 0, 2},
		{0, 1, -2}} {
		if got := math.Float32frombits(texture.cube(0, at, 0)[0]); got != float32(want) {
			t.Errorf("%v in direction %v, want %d", got, at, want)
		}
	}
}

const textureModule = `.version 7.0
.target sm_75
.address_size 64
.global .texref image;
.global .surfref board;
.visible .entry sample(.param .u64 t, .param .u64 out)
{
	.reg .b32 %r<4>;
	.reg .pred p;
	.reg .f32 %f<9>;
	.reg .b64 %rd<5>;
	mov.u32 %r1, %tid.x;
	cvt.rn.f32.u32 %f1, %r1;
	add.f32 %f1, %f1, 0f3F000000;
	ld.param.u64 %rd1, [t];
	setp.eq.u64 p, %rd1, 0;
	@p bra REFERENCE;
	tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd1, {%f1, %f1}];
	bra STORE;
REFERENCE:
	tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [image, {%f1, %f1}];
STORE:
	ld.param.u64 %rd2, [out];
	mad.wide.u32 %rd3, %r1, 4, %rd2;
	st.global.f32 [%rd3], %f2;
	ret;
}
.visible .entry store(.param .u32 x)
{
	.reg .b32 %r<5>;
	ld.param.u32 %r1, [x];
	mov.u32 %r2, 0;
	suld.b.2d.b32.zero {%r3}, [board, {%r1, %r2}];
	add.u32 %r3, %r3, 1;
	sust.b.2d.b32.trap [board, {%r1, %r2}], {%r3};
	ret;
}
`

// newTextureTest loads textureModule.
func newTextureTest(t *testing.T) *device {
	d := newDevice(t, 4<<20)
	m := parseText(t, "textures", []byte(textureModule))
	d.load(m)
	return d
}

// diagonal is a texture whose diagonal counts.
func diagonal(d *device) *Texture {
	texels := make([]float32, 16)
	for i := range 4 {
		texels[5*i] = float32(i + 1)
	}
	return &Texture{
		Format: FormatFloat, Channels: 1,
		Levels: []Image{{Base: put(d, texels), Width: 4, Height: 4, Depth: 1, Pitch: 16,
			Slice: 64}},
	}
}

func TestTextureOfKernel(t *testing.T) {
	t.Parallel()
	d := newTextureTest(t)
	texture := diagonal(d)
	gone := *texture
	gone.Levels = []Image{{Base: 1 << 40, Width: 4, Height: 4, Depth: 1, Pitch: 16, Slice: 64}}
	for _, test := range []struct {
		name     string
		number   uint64
		bindings []Binding
		want     []float32
		code     int
	}{
		{"object", 7, nil, []float32{1, 2, 3, 4}, 0},
		{"reference", 0, []Binding{{Texture: texture}}, []float32{1, 2, 3, 4}, 0},
		{"reference that isn't bound", 0, nil, make([]float32, 4), 0},
		{"reference as a number", ReferenceWindow, []Binding{{Texture: texture}},
			[]float32{1, 2, 3, 4}, 0},
		{"number of no reference", ReferenceWindow + 2, nil, nil, cudaabi.ErrorIllegalAddress},
		{"surface as a texture", 8, nil, nil, cudaabi.ErrorIllegalAddress},
		{"memory that isn't there", 0, []Binding{{Texture: &gone}}, nil,
			cudaabi.ErrorIllegalAddress},
	} {
		out := put(d, make([]float32, 4))
		l := d.launch("sample", linear(1), linear(4), test.number, out)
		l.Objects, l.Bindings = &someObjects{texture: texture}, test.bindings
		err := l.Run(context.Background())
		var fault *Fault
		switch {
		case test.code == 0 && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.code == 0:
			equal(t, test.name, get[float32](d, out, 4), test.want)
		case !errors.As(err, &fault) || fault.Code != test.code:
			t.Errorf("%s: %v, want fault %d", test.name, err, test.code)
		}
	}
}

func TestSurfaceOfKernel(t *testing.T) {
	t.Parallel()
	d := newTextureTest(t)
	base := put(d, []uint32{10, 20, 30, 40})
	board := &Surface{Image: Image{Base: base, Width: 4, Height: 1, Depth: 1, Pitch: 16, Slice: 16},
		Texel: 4}
	for _, test := range []struct {
		name    string
		x       int32
		surface *Surface
		want    []uint32
		code    int
	}{
		{"first", 0, board, []uint32{11, 20, 30, 40}, 0},
		{"last", 12, board, []uint32{11, 20, 30, 41}, 0},
		{"misaligned", 6, board, nil, cudaabi.ErrorMisalignedAddress},
		{"beyond", 16, board, nil, cudaabi.ErrorLaunchFailed},
		{"before", -4, board, nil, cudaabi.ErrorLaunchFailed},
		{"not bound", 0, nil, nil, cudaabi.ErrorIllegalAddress},
	} {
		l := d.launch("store", linear(1), linear(1), test.x)
		l.Bindings = []Binding{{}, {Surface: test.surface}}
		err := l.Run(context.Background())
		var fault *Fault
		switch {
		case test.code == 0 && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.code == 0:
			equal(t, test.name, get[uint32](d, base, 4), test.want)
		case !errors.As(err, &fault) || fault.Code != test.code:
			t.Errorf("%s: %v, want fault %d", test.name, err, test.code)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	m, err := ptx.Parse([]byte(textureModule), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "references", p.References(), []Reference{{"image", false}, {"board", true}})
	if n := len(p.Globals()); n != 0 {
		t.Errorf("%d globals", n)
	}
	for _, text := range []string{
		".global .texref t[2];", ".global .texref t = {normalized_coords = 1};",
		".const .texref t;", ".shared .surfref s;",
	} {
		if _, err := ptx.Parse([]byte(".version 7.0\n.target sm_75\n.address_size 64\n"+text),
			nil); err == nil {
			t.Errorf("parsed: %s", text)
		}
	}
}

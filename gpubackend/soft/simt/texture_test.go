// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

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

// diagonal is a texture of 4 by 4 texels, with 1, 2, 3, 4 on the diagonal and 0 elsewhere.
func diagonal(d *device) *sampler.Texture {
	texels := make([]float32, 16)
	for i := range 4 {
		texels[5*i] = float32(i + 1)
	}
	return &sampler.Texture{
		Format: sampler.FormatFloat, Channels: 1,
		Levels: []sampler.Texels{{Base: put(d, texels), Width: 4, Height: 4, Depth: 1, Pitch: 16,
			Slice: 64}},
	}
}

// endsWith checks that a launch ended with a fault, or with none (0), and says whether it did its
// work.
func endsWith(t *testing.T, name string, err error, code int) (done bool) {
	t.Helper()
	var fault *KernelError
	switch {
	case code == 0 && err != nil:
		t.Errorf("%s: %v", name, err)
	case code != 0 && (!errors.As(err, &fault) || fault.Code != code):
		t.Errorf("%s: %v, want fault %d", name, err, code)
	}
	return code == 0 && err == nil
}

func TestTextureOfKernel(t *testing.T) {
	t.Parallel()
	d := newTextureTest(t)
	texture := diagonal(d)
	gone := *texture
	gone.Levels = []sampler.Texels{{Base: 1 << 40, Width: 4, Height: 4, Depth: 1, Pitch: 16,
		Slice: 64}}
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
		{"reference as a number", decoded.ReferenceWindow, []Binding{{Texture: texture}},
			[]float32{1, 2, 3, 4}, 0},
		{"number of no reference", decoded.ReferenceWindow + 2, nil, nil,
			cudaabi.ErrorIllegalAddress},
		{"surface as a texture", 8, nil, nil, cudaabi.ErrorIllegalAddress},
		{"memory that isn't there", 0, []Binding{{Texture: &gone}}, nil,
			cudaabi.ErrorIllegalAddress},
	} {
		out := put(d, make([]float32, 4))
		l := d.launch("sample", linear(1), linear(4), test.number, out)
		l.Objects, l.Bindings = &someObjects{texture: texture}, test.bindings
		if endsWith(t, test.name, l.Run(context.Background()), test.code) {
			equal(t, test.name, get[float32](d, out, 4), test.want)
		}
	}
}

func TestSurfaceOfKernel(t *testing.T) {
	t.Parallel()
	d := newTextureTest(t)
	base := put(d, []uint32{10, 20, 30, 40})
	board := &sampler.Surface{Texels: sampler.Texels{Base: base, Width: 4, Height: 1, Depth: 1,
		Pitch: 16, Slice: 16},
		Texel: 4}
	for _, test := range []struct {
		name    string
		x       int32
		surface *sampler.Surface
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
		if endsWith(t, test.name, l.Run(context.Background()), test.code) {
			equal(t, test.name, get[uint32](d, base, 4), test.want)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	m, err := ptx.Parse([]byte(textureModule), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := decoded.Load(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "references", p.References(), []decoded.Reference{{Name: "image", Surface: false},
		{Name: "board", Surface: true}})
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

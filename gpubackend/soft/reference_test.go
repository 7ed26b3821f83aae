// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"math"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
	"github.com/paracuda/paracuda/gpubackend/soft/textures"
)

const referencePTX = `.version 7.0
.target sm_75
.address_size 64
.global .texref line;
.global .surfref board;
.visible .entry first(.param .u64 out)
{
	.reg .b32 %v<4>;
	.reg .b64 %p;
	ld.param.u64 %p, [out];
	tex.1d.v4.s32.s32 {%v0, %v1, %v2, %v3}, [line, {0}];
	st.global.b32 [%p], %v0;
	ret;
}
`

// bindable is a module with references, and memory.
type bindable struct {
	*Device
	t      testing.TB
	module gpubackend.Module
	kernel gpubackend.Function
	line   gpubackend.TextureReference
	board  gpubackend.SurfaceReference
	memory uint64
}

func newBindable(t testing.TB) *bindable {
	t.Helper()
	b := &bindable{Device: newDevice(t, Options{}), t: t}
	var result gpubackend.Result
	b.module, _, _, result = b.ModuleLoadData([]byte(referencePTX), nil, nil, nil)
	ok(t, result)
	b.kernel, result = b.ModuleGetFunction(b.module, "first")
	ok(t, result)
	b.line, result = b.ModuleGetTexRef(b.module, "line")
	ok(t, result)
	b.board, result = b.ModuleGetSurfRef(b.module, "board")
	ok(t, result)
	b.memory = alloc(t, b.Device, 4096)
	return b
}

// launch queues the kernel, which writes the first texel to out.
func (b *bindable) launch(s gpubackend.Stream, out uint64) {
	b.t.Helper()
	ok(b.t, b.Launch(&gpubackend.Launch{
		Function: b.kernel, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Stream: s,
		Parameters: params(out),
	}))
}

func TestReferenceNames(t *testing.T) {
	b := newBindable(t)
	again, result := b.ModuleGetTexRef(b.module, "line")
	ok(t, result)
	if again != b.line {
		t.Errorf("reference %d, was %d", again, b.line)
	}
	for name, expected := range map[string]gpubackend.Result{
		"": gpubackend.InvalidValue, "missing": gpubackend.NotFound, "board": gpubackend.NotFound,
		"first": gpubackend.NotFound,
	} {
		if _, result := b.ModuleGetTexRef(b.module, name); result != expected {
			t.Errorf("texture reference %q: %d, want %d", name, result, expected)
		}
	}
	_, result = b.ModuleGetSurfRef(b.module, "line")
	want(t, result, gpubackend.NotFound)
	_, result = b.ModuleGetTexRef(12345, "line")
	want(t, result, gpubackend.InvalidHandle)
	want(t, b.TexRefDestroy(b.line), gpubackend.InvalidValue)
	ok(t, b.ModuleUnload(b.module))
	want(t, b.TexRefSetFlags(b.line, 0), gpubackend.InvalidHandle)
	_, result = b.SurfRefGetArray(b.board)
	want(t, result, gpubackend.InvalidHandle)
}

// TestLaunchesKeepTheirBindings binds again while launches wait.
func TestLaunchesKeepTheirBindings(t *testing.T) {
	b := newBindable(t)
	s := newStream(t, b.Device, 1)
	ok(t, b.CopyIn(b.memory, words(11), 0))
	ok(t, b.CopyIn(b.memory+512, words(22), 0))
	out := alloc(t, b.Device, 512)
	ok(t, b.TexRefSetFormat(b.line, uint64(sampler.FormatInt32), 1))
	open := gate(t, b.Device, s)
	b.launch(s, out) // not bound yet
	_, result := b.TexRefSetAddress(b.line, b.memory, 64)
	ok(t, result)
	b.launch(s, out+4)
	_, result = b.TexRefSetAddress(b.line, b.memory+512, 64)
	ok(t, result)
	b.launch(s, out+8)
	_, result = b.TexRefSetAddress(b.line, 0, 0)
	ok(t, result)
	b.launch(s, out+12)
	open()
	synchronize(t, b.Device)
	got := read(t, b.Device, out, 16)
	if string(got) != string(words(0, 11, 22, 0)) {
		t.Errorf("launches read %v", got)
	}
}

func TestBindingErrors(t *testing.T) {
	b := newBindable(t)
	plain, board := newArray(t, b.Device, 8, 8, 0, 0),
		newArray(t, b.Device, 8, 8, 0, cudaabi.Array3DSurfaceLdst)
	desc := make(cudaabi.ArrayDescriptor, cudaabi.ArrayDescriptorSize)
	desc.SetWidth(8)
	desc.SetHeight(4)
	desc.SetFormat(cudaabi.ArrayFormatFloat)
	desc.SetNumChannels(1)
	address := func(addr, bytes uint64) gpubackend.Result {
		_, result := b.TexRefSetAddress(b.line, addr, bytes)
		return result
	}
	for _, c := range []struct {
		name      string
		got, want gpubackend.Result
	}{
		{"array", b.TexRefSetArray(b.line, plain, 1), gpubackend.Success},
		{"array as the runtime does", b.TexRefSetArray(b.line, plain, 0), gpubackend.Success},
		{"array with other flags", b.TexRefSetArray(b.line, plain, 2), gpubackend.InvalidValue},
		{"no array", b.TexRefSetArray(b.line, 99999, 1), gpubackend.InvalidHandle},
		{"no reference", b.TexRefSetArray(99999, plain, 1), gpubackend.InvalidHandle},
		{"surface reference as a texture reference",
			b.TexRefSetFlags(gpubackend.TextureReference(b.board), 0), gpubackend.InvalidHandle},
		{"format of another size", b.TexRefSetFormat(b.line, uint64(sampler.FormatFloat), 4),
			gpubackend.InvalidValue},
		{"format of that size", b.TexRefSetFormat(b.line, uint64(sampler.FormatInt8), 1),
			gpubackend.Success},
		{"memory", address(b.memory, 4096), gpubackend.Success},
		{"memory that ends", address(b.memory, 1<<30), gpubackend.InvalidValue},
		{"no memory", address(4096, 64), gpubackend.InvalidValue},
		{"no bytes", address(b.memory, 0), gpubackend.InvalidValue},
		{"rows", b.TexRefSetAddress2D(b.line, desc, b.memory, 32), gpubackend.Success},
		{"rows out of line", b.TexRefSetAddress2D(b.line, desc, b.memory+4, 32),
			gpubackend.InvalidValue},
		{"short rows", b.TexRefSetAddress2D(b.line, desc, b.memory, 0), gpubackend.InvalidValue},
		{"odd rows", b.TexRefSetAddress2D(b.line, desc, b.memory, 36), gpubackend.InvalidValue},
		{"unknown format", b.TexRefSetFormat(b.line, 5, 1), gpubackend.InvalidValue},
		{"three channels", b.TexRefSetFormat(b.line, 1, 3), gpubackend.InvalidValue},
		{"address mode", b.TexRefSetAddressMode(b.line, 0, 4), gpubackend.InvalidValue},
		{"dimension", b.TexRefSetAddressMode(b.line, 3, 0), gpubackend.InvalidValue},
		{"negative dimension", b.TexRefSetAddressMode(b.line, 1<<64-1, 0), gpubackend.InvalidValue},
		{"filter", b.TexRefSetFilterMode(b.line, 2), gpubackend.InvalidValue},
		{"flags", b.TexRefSetFlags(b.line, 1<<20), gpubackend.InvalidValue},
		{"surface of an array that isn't for it", b.SurfRefSetArray(b.board, plain, 0),
			gpubackend.InvalidValue},
		{"surface with flags", b.SurfRefSetArray(b.board, board, 1), gpubackend.InvalidValue},
		{"surface", b.SurfRefSetArray(b.board, board, 0), gpubackend.Success},
		{"parameter", b.ParamSetTexRef(b.kernel, 1<<64-1, b.line), gpubackend.Success},
		{"texture unit", b.ParamSetTexRef(b.kernel, 0, b.line), gpubackend.InvalidValue},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

// TestReferenceOffset binds memory that doesn't begin where a texture can.
func TestReferenceOffset(t *testing.T) {
	b := newBindable(t)
	offset, result := b.TexRefSetAddress(b.line, b.memory+1028, 64)
	ok(t, result)
	if offset != 4 {
		t.Errorf("offset %d", offset)
	}
	if addr, _ := b.TexRefGetAddress(b.line); addr != b.memory+1024 {
		t.Errorf("address %#x of memory at %#x", addr, b.memory)
	}
	m, result := b.Device.Code.Module(b.module)
	ok(t, result)
	texture := b.Bindings(m)[0].Texture
	if m := texture.Levels[0]; m.Base != b.memory+1024 || m.Width != 17 {
		t.Errorf("%d texels at %#x", m.Width, m.Base)
	}
}

func TestReferencesTellTheirState(t *testing.T) {
	b := newBindable(t)
	_, result := b.TexRefGetAddress(b.line)
	want(t, result, gpubackend.InvalidValue)
	_, result = b.TexRefGetArray(b.line)
	want(t, result, gpubackend.InvalidValue)
	_, result = b.TexRefGetMipmappedArray(b.line)
	want(t, result, gpubackend.InvalidValue)
	_, result = b.SurfRefGetArray(b.board)
	want(t, result, gpubackend.InvalidValue)
	m, result := b.MipmappedArrayCreate(arrayDesc{8, 8, 0, sampler.FormatHalf, 2, 0}.describe(), 2)
	ok(t, result)
	ok(t, b.TexRefSetMipmappedArray(b.line, m, 1))
	bias := uint64(math.Float32bits(-1.5))
	ok(t, b.TexRefSetMipmapLevelBias(b.line, bias))
	ok(t, b.TexRefSetMipmapLevelClamp(b.line, 0, bias))
	ok(t, b.TexRefSetMaxAnisotropy(b.line, 4))
	ok(t, b.TexRefSetMipmapFilterMode(b.line, 1))
	ok(t, b.TexRefSetAddressMode(b.line, 2, 2))
	color := words(1, 2, 3, 4)
	ok(t, b.TexRefSetBorderColor(b.line, color))
	told := make([]byte, 16)
	ok(t, b.TexRefGetBorderColor(told, b.line))
	if string(told) != string(color) {
		t.Errorf("border %v", told)
	}
	if format, channels, _ := b.TexRefGetFormat(b.line); format != uint64(sampler.FormatHalf) ||
		channels != 2 {
		t.Errorf("format %d, %d channels", format, channels)
	}
	if low, high, _ := b.TexRefGetMipmapLevelClamp(b.line); low != 0 || high != bias {
		t.Errorf("levels %#x to %#x", low, high)
	}
	get := func(v uint64, result gpubackend.Result) uint64 {
		t.Helper()
		ok(t, result)
		return v
	}
	for name, v := range map[string][2]uint64{
		"bias":       {get(b.TexRefGetMipmapLevelBias(b.line)), bias},
		"anisotropy": {get(b.TexRefGetMaxAnisotropy(b.line)), 4},
		"filter":     {get(b.TexRefGetFilterMode(b.line)), 0},
		"levels":     {get(b.TexRefGetMipmapFilterMode(b.line)), 1},
		"mode":       {get(b.TexRefGetAddressMode(b.line, 2)), 2},
		"flags":      {get(b.TexRefGetFlags(b.line)), 0},
	} {
		if v[0] != v[1] {
			t.Errorf("%s %#x, want %#x", name, v[0], v[1])
		}
	}
	if got, result := b.TexRefGetMipmappedArray(b.line); got != m || result != gpubackend.Success {
		t.Errorf("mipmapped array %d, result %d", got, result)
	}
}

func TestMadeReferences(t *testing.T) {
	d := newDevice(t, Options{})
	r, result := d.TexRefCreate()
	ok(t, result)
	ok(t, d.TexRefSetFlags(r, 1))
	ok(t, d.TexRefDestroy(r))
	want(t, d.TexRefDestroy(r), gpubackend.InvalidHandle)
	for range textures.MaxReferences {
		_, result = d.TexRefCreate()
		ok(t, result)
	}
	_, result = d.TexRefCreate()
	want(t, result, gpubackend.OutOfMemory)
	ok(t, d.DevicePrimaryCtxReset(0))
	_, result = d.TexRefCreate()
	ok(t, result)
}

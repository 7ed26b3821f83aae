// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// arrayDesc is what a CUDA_ARRAY3D_DESCRIPTOR says.
type arrayDesc struct {
	width, height, depth uint64
	format               sampler.Format
	channels, flags      uint32
}

// describe makes a CUDA_ARRAY3D_DESCRIPTOR.
func (a arrayDesc) describe() []byte {
	b := make(cudaabi.Array3DDescriptor, cudaabi.Array3DDescriptorSize)
	b.SetWidth(a.width)
	b.SetHeight(a.height)
	b.SetDepth(a.depth)
	b.SetFormat(uint32(a.format))
	b.SetNumChannels(a.channels)
	b.SetFlags(a.flags)
	return b
}

// newArray makes an array of bytes.
func newArray(t testing.TB, d *Device, width, height, depth uint64, flags uint32) gpubackend.Array {
	t.Helper()
	a, result := d.Array3DCreate(arrayDesc{width, height, depth, sampler.FormatUint8, 1,
		flags}.describe())
	ok(t, result)
	return a
}

func TestArrayDescriptions(t *testing.T) {
	d := newDevice(t, Options{})
	f := sampler.FormatFloat
	for _, c := range []struct {
		name string
		desc arrayDesc
		want gpubackend.Result
	}{
		{"line", arrayDesc{7, 0, 0, f, 1, 0}, gpubackend.Success},
		{"image", arrayDesc{7, 5, 0, f, 2,
			cudaabi.Array3DSurfaceLdst | cudaabi.Array3DTextureGather}, gpubackend.Success},
		{"volume", arrayDesc{7, 5, 3, f, 4, 0}, gpubackend.Success},
		{"layers of lines", arrayDesc{7, 0, 3, f, 4, cudaabi.Array3DLayered}, gpubackend.Success},
		{"cube", arrayDesc{4, 4, 6, f, 1, cudaabi.Array3DCubemap}, gpubackend.Success},
		{"cubes", arrayDesc{4, 4, 12, f, 1, cudaabi.Array3DCubemap | cudaabi.Array3DLayered},
			gpubackend.Success},
		{"no width", arrayDesc{0, 5, 0, f, 1, 0}, gpubackend.InvalidValue},
		{"three channels", arrayDesc{7, 0, 0, f, 3, 0}, gpubackend.InvalidValue},
		{"unknown format", arrayDesc{7, 0, 0, 77, 1, 0}, gpubackend.NotSupported},
		{"sparse", arrayDesc{7, 7, 0, f, 1, 0x40}, gpubackend.NotSupported},
		{"too wide", arrayDesc{chip.MaxImageWidth + 1, 0, 0, f, 1, 0}, gpubackend.InvalidValue},
		{"absurd", arrayDesc{1 << 63, 1 << 63, 1 << 63, f, 1, 0}, gpubackend.InvalidValue},
		{"too high", arrayDesc{7, chip.MaxImageHeight + 1, 0, f, 1, 0}, gpubackend.InvalidValue},
		{"too deep", arrayDesc{7, 7, chip.MaxVolume + 1, f, 1, 0}, gpubackend.InvalidValue},
		{"depth without height", arrayDesc{7, 0, 3, f, 1, 0}, gpubackend.InvalidValue},
		{"too many layers", arrayDesc{7, 7, chip.MaxLayers + 1, f, 1, cudaabi.Array3DLayered},
			gpubackend.InvalidValue},
		{"five faces", arrayDesc{4, 4, 5, f, 1, cudaabi.Array3DCubemap}, gpubackend.InvalidValue},
		{"oblong cube", arrayDesc{4, 5, 6, f, 1, cudaabi.Array3DCubemap}, gpubackend.InvalidValue},
		{"too large", arrayDesc{chip.MaxVolume, chip.MaxVolume, chip.MaxVolume, f, 4, 0},
			gpubackend.OutOfMemory},
	} {
		a, result := d.Array3DCreate(c.desc.describe())
		if result != c.want {
			t.Errorf("%s: %d, want %d", c.name, result, c.want)
		}
		if result != gpubackend.Success {
			continue
		}
		told := make([]byte, 40)
		ok(t, d.Array3DGetDescriptor(told, a))
		if !bytes.Equal(told, c.desc.describe()) {
			t.Errorf("%s: told %x", c.name, told)
		}
		ok(t, d.ArrayDestroy(a))
		want(t, d.ArrayDestroy(a), gpubackend.InvalidHandle)
	}
	if free, total, _ := d.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
}

func TestLevelsOfArray(t *testing.T) {
	d := newDevice(t, Options{})
	_, result := d.MipmappedArrayCreate(arrayDesc{8, 2, 0, sampler.FormatUint8, 1, 0}.describe(), 0)
	want(t, result, gpubackend.InvalidValue)
	m, result := d.MipmappedArrayCreate(arrayDesc{8, 2, 0, sampler.FormatUint8, 1, 0}.describe(), 9)
	ok(t, result)
	for level, size := range [][2]uint64{{8, 2}, {4, 1}, {2, 1}, {1, 1}} {
		a, result := d.MipmappedArrayGetLevel(m, uint64(level))
		ok(t, result)
		again, _ := d.MipmappedArrayGetLevel(m, uint64(level))
		desc := make([]byte, 24)
		ok(t, d.ArrayGetDescriptor(desc, a))
		if word(desc) != size[0] || word(desc[8:]) != size[1] || again != a {
			t.Errorf("level %d: %d x %d, array %d and %d", level, word(desc), word(desc[8:]), a,
				again)
		}
		want(t, d.ArrayDestroy(a), gpubackend.InvalidHandle)
	}
	_, result = d.MipmappedArrayGetLevel(m, 4)
	want(t, result, gpubackend.InvalidValue)
	ok(t, d.MipmappedArrayDestroy(m))
	want(t, d.MipmappedArrayDestroy(m), gpubackend.InvalidHandle)
	if free, total, _ := d.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
}

// arrayCopy makes a CUDA_MEMCPY3D between an array, at x, y and z, and memory without gaps.
func arrayCopy(
	a gpubackend.Array, x, y, z uint64, memory uint64, in bool, width, height, depth uint64,
) []byte {
	m := make(cudaabi.Memcpy3D, cudaabi.Memcpy3DSize)
	array, other := m.Dst(), m.Src()
	if !in {
		array, other = other, array
	}
	array.SetXInBytes(x)
	array.SetY(y)
	array.SetZ(z)
	array.SetMemoryType(cudaabi.MemoryTypeArray)
	array.SetArray(uint64(a))
	other.SetMemoryType(cudaabi.MemoryTypeDevice)
	other.SetDevice(memory)
	other.SetPitch(width)
	other.SetHeight(height)
	m.SetWidthInBytes(width)
	m.SetHeight(height)
	m.SetDepth(depth)
	return m
}

func TestCopyArray(t *testing.T) {
	d := newDevice(t, Options{})
	a := newArray(t, d, 10, 6, 4, 0)
	p, q := alloc(t, d, 240), alloc(t, d, 240)
	in := pattern(240)
	ok(t, d.CopyIn(p, in, 0))
	ok(t, d.CopyArray(arrayCopy(a, 0, 0, 0, p, true, 10, 6, 4), 0))
	ok(t, d.CopyArray(arrayCopy(a, 3, 2, 1, q, false, 5, 3, 2), 0))
	synchronize(t, d)
	got := read(t, d, q, 30)
	for i := range uint64(30) {
		x, y, z := 3+i%5, 2+i/5%3, 1+i/15
		if got[i] != in[(z*6+y)*10+x] {
			t.Fatalf("byte %d is %d", i, got[i])
		}
	}
	for _, c := range []struct {
		name                       string
		x, y, z, width, high, deep uint64
	}{
		{"beyond the row", 6, 0, 0, 5, 1, 1}, {"beyond the rows", 0, 4, 0, 1, 3, 1},
		{"beyond the planes", 0, 0, 4, 1, 1, 1},
		{"overflow", 1<<64 - 1, 0, 0, 2, 1, 1}, {"absurd", 0, 0, 0, 1 << 60, 1 << 60, 1 << 60},
	} {
		want(t, d.CopyArray(arrayCopy(a, c.x, c.y, c.z, q, false, c.width, c.high, c.deep), 0),
			gpubackend.InvalidValue)
	}
	ok(t, d.ArrayDestroy(a))
	want(t, d.CopyArray(arrayCopy(a, 0, 0, 0, p, true, 10, 6, 4), 0), gpubackend.InvalidHandle)
}

// linearResource makes a CUDA_RESOURCE_DESC of memory that holds floats.
func linearResource(addr, bytes uint64) []byte {
	r := make(cudaabi.ResourceDesc, cudaabi.ResourceDescSize)
	r.SetResType(cudaabi.ResourceLinear)
	r.SetLinearDevPtr(addr)
	r.SetLinearFormat(cudaabi.ArrayFormatFloat)
	r.SetLinearNumChannels(1)
	r.SetLinearSizeInBytes(bytes)
	return r
}

// arrayResource makes one of an array.
func arrayResource(a gpubackend.Array) []byte {
	r := make(cudaabi.ResourceDesc, cudaabi.ResourceDescSize)
	r.SetResType(cudaabi.ResourceArray)
	r.SetArray(uint64(a))
	return r
}

func TestTextureObjects(t *testing.T) {
	d := newDevice(t, Options{})
	p := alloc(t, d, 4096)
	plain, board := newArray(t, d, 8, 8, 0, 0), newArray(t, d, 8, 8, 0, cudaabi.Array3DSurfaceLdst)
	texture := make([]byte, cudaabi.TextureDescSize)
	odd := make([]byte, cudaabi.TextureDescSize)
	odd[0] = 9
	for _, c := range []struct {
		name              string
		resource, texture []byte
		want              gpubackend.Result
	}{
		{"memory", linearResource(p, 4096), texture, gpubackend.Success},
		{"array", arrayResource(plain), texture, gpubackend.Success},
		{"too much", linearResource(p, 4<<20), texture, gpubackend.InvalidValue},
		{"nothing", linearResource(p, 3), texture, gpubackend.InvalidValue},
		{"misaligned", linearResource(p+4, 4), texture, gpubackend.InvalidValue},
		{"host memory", linearResource(4096, 4096), texture, gpubackend.InvalidValue},
		{"no array", arrayResource(3), texture, gpubackend.InvalidHandle},
		{"memory as an array", arrayResource(gpubackend.Array(p)), texture,
			gpubackend.InvalidHandle},
		{"no description", arrayResource(plain), nil, gpubackend.InvalidValue},
		{"address mode", arrayResource(plain), odd, gpubackend.InvalidValue},
	} {
		number, result := d.TexObjectCreate(c.resource, c.texture, nil)
		if result != c.want {
			t.Errorf("%s: %d, want %d", c.name, result, c.want)
		}
		if result == gpubackend.Success {
			want(t, d.SurfObjectDestroy(number), gpubackend.InvalidValue)
			ok(t, d.TexObjectDestroy(number))
			want(t, d.TexObjectDestroy(number), gpubackend.InvalidValue)
		}
	}
	_, result := d.SurfObjectCreate(arrayResource(plain))
	want(t, result, gpubackend.InvalidValue)
	s, result := d.SurfObjectCreate(arrayResource(board))
	ok(t, result)
	want(t, d.TexObjectDestroy(s), gpubackend.InvalidValue)
	ok(t, d.DevicePrimaryCtxReset(0))
	want(t, d.SurfObjectDestroy(s), gpubackend.InvalidValue)
	want(t, d.ArrayDestroy(board), gpubackend.InvalidHandle)
	if d.Textures.Count() != 0 {
		t.Errorf("%d objects are left", d.Textures.Count())
	}
	if free, total, _ := d.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
}

// TestDestroyedTextureStaysForItsWork destroys a texture while a kernel that reads it waits.
func TestDestroyedTextureStaysForItsWork(t *testing.T) {
	d := newDevice(t, Options{})
	s := newStream(t, d, 1)
	open := gate(t, d, s)
	p := alloc(t, d, 4096)
	number, result := d.TexObjectCreate(linearResource(p, 4096),
		make([]byte, cudaabi.TextureDescSize), nil)
	ok(t, result)
	ok(t, d.TexObjectDestroy(number))
	if d.KernelObjects().Texture(number) == nil {
		t.Error("it is gone while there is work")
	}
	open()
	synchronize(t, d)
	ok(t, wait(t, func() gpubackend.Result {
		if d.KernelObjects().Texture(number) != nil {
			return gpubackend.NotReady
		}
		return gpubackend.Success
	}))
}

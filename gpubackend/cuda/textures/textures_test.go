// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/memory"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// fake is a driver that numbers what it makes, and counts memory up to a bound.
type fake struct {
	last, used, bound uint64
	refuse            bool
	copied            int
	content           map[uint64]string // of arrays
	free              []uint64          // numbers to be given out first
}

func (f *fake) next() (uint64, gpubackend.Result) {
	if f.refuse {
		return 0, gpubackend.InvalidValue
	}
	f.last++
	return f.last, gpubackend.Success
}

func (f *fake) ArrayCreate([]byte) (gpubackend.Array, gpubackend.Result) {
	h, r := f.next()
	return gpubackend.Array(h), r
}
func (f *fake) Array3DCreate(desc []byte) (gpubackend.Array, gpubackend.Result) {
	return f.ArrayCreate(desc)
}
func (f *fake) ArrayDestroy(gpubackend.Array) gpubackend.Result { return gpubackend.Success }
func (f *fake) MipmappedArrayCreate([]byte, uint64) (gpubackend.MipmappedArray, gpubackend.Result) {
	h, r := f.next()
	return gpubackend.MipmappedArray(h), r
}
func (f *fake) MipmappedArrayDestroy(gpubackend.MipmappedArray) gpubackend.Result {
	return gpubackend.Success
}
func (f *fake) MipmappedArrayGetLevel(
	m gpubackend.MipmappedArray, n uint64,
) (gpubackend.Array, gpubackend.Result) {
	return gpubackend.Array(uint64(m)<<8 + n), gpubackend.Success
}
func (f *fake) CtxSynchronize() gpubackend.Result { return gpubackend.Success }
func (f *fake) Memcpy3DAsync(m cmem.Memory, _ gpubackend.Stream) gpubackend.Result {
	f.copied++
	p := cudaabi.Memcpy3D(m.Bytes())
	bytes := int(p.WidthInBytes() * p.Height() * p.Depth())
	switch {
	case p.Src().MemoryType() == cudaabi.MemoryTypeHost:
		f.content[p.Dst().Array()] = string(cmem.At(p.Src().Host(), bytes))
	case p.Dst().MemoryType() == cudaabi.MemoryTypeHost:
		copy(cmem.At(p.Dst().Host(), bytes), f.content[p.Src().Array()])
	}
	return gpubackend.Success
}
func (f *fake) NewTexture(_, _, _ []byte) (uint64, gpubackend.Result) {
	if len(f.free) > 0 && !f.refuse {
		h := f.free[0]
		f.free = f.free[1:]
		return h, gpubackend.Success
	}
	return f.next()
}
func (f *fake) NewSurface([]byte) (uint64, gpubackend.Result) { return f.next() }
func (f *fake) TexObjectDestroy(uint64) gpubackend.Result     { return gpubackend.Success }
func (f *fake) SurfObjectDestroy(uint64) gpubackend.Result    { return gpubackend.Success }
func (f *fake) ModuleGetTexRef(
	_ gpubackend.Module, name string,
) (gpubackend.TextureReference, gpubackend.Result) {
	if name == "" {
		return 0, gpubackend.NotFound
	}
	return 5, gpubackend.Success
}
func (f *fake) ModuleGetSurfRef(
	_ gpubackend.Module, name string,
) (gpubackend.SurfaceReference, gpubackend.Result) {
	t, r := f.ModuleGetTexRef(0, name)
	return gpubackend.SurfaceReference(t), r
}
func (f *fake) PointerAttribute(uint64, uint64) (uint64, gpubackend.Result) {
	return 0, gpubackend.InvalidValue
}
func (f *fake) Charge(_ int, bytes uint64) bool {
	if f.used+bytes > f.bound {
		return false
	}
	f.used += bytes
	return true
}
func (f *fake) Uncharge(_ int, bytes uint64) { f.used -= bytes }

func newTextures(host *budget.Budget, referred func()) (*Textures, *contexts.Contexts, *fake) {
	f := &fake{bound: 1 << 20, content: map[uint64]string{}}
	var x *Textures
	all, _ := contextstest.New(func(c *contexts.Context) { x.Ended(c) })
	ranges := copyable.New(f, all)
	ranges.SetWindow(1<<40, 1<<20, 1)
	x = New(f, all, ranges, memory.NewCharges(f, all), host, referred,
		func(addr uint64) bool { return addr == 1<<40 })
	return x, all, f
}

// description is a CUDA_ARRAY3D_DESCRIPTOR of 32-bit elements.
func description(width, height, depth uint64, channels uint32) []byte {
	d := make(cudaabi.Array3DDescriptor, cudaabi.Array3DDescriptorSize)
	d.SetWidth(width)
	d.SetHeight(height)
	d.SetDepth(depth)
	d.SetFormat(cudaabi.ArrayFormatFloat)
	d.SetNumChannels(channels)
	return d
}

func TestArraysCount(t *testing.T) {
	x, all, f := newTextures(nil, nil)
	for _, test := range []struct {
		name   string
		desc   []byte
		refuse bool
		want   gpubackend.Result
		used   uint64
	}{
		{"small", description(1, 0, 0, 1), false, 0, arrayUnit},
		{"square", description(256, 256, 0, 1), false, 0, arrayUnit + 256<<10},
		{"refused", description(256, 256, 0, 1), true, gpubackend.InvalidValue,
			arrayUnit + 256<<10},
		{"more than there is", description(1<<10, 1<<10, 0, 1), false, gpubackend.OutOfMemory,
			arrayUnit + 256<<10},
		{"no width", description(0, 1, 1, 1), false, gpubackend.InvalidValue, arrayUnit + 256<<10},
		{"more than can be told", description(1<<32, 1<<20, 1<<20, 4), false,
			gpubackend.InvalidValue, arrayUnit + 256<<10},
	} {
		f.refuse = test.refuse
		if _, r := x.Array3DCreate(test.desc); r != test.want || f.used != test.used {
			t.Errorf("%s: result %d, %d bytes count", test.name, r, f.used)
		}
	}
	x.ArrayDestroy(1)
	if f.used != 256<<10 {
		t.Errorf("%d bytes count after the first has gone", f.used)
	}
	m, r := x.MipmappedArrayCreate(description(256, 256, 0, 1), 4)
	if r != gpubackend.Success || f.used != (256+384)<<10 {
		t.Errorf("levels: result %d, %d bytes count", r, f.used)
	}
	x.MipmappedArrayDestroy(m)
	if all.DevicePrimaryCtxReset(0); f.used != 0 {
		t.Errorf("%d bytes count in the end", f.used)
	}
	all.SetCurrent(0)
	if _, r := x.Array3DCreate(description(1, 0, 0, 1)); r != gpubackend.InvalidContext {
		t.Errorf("without a context: %d", r)
	}
}

// TestObjects: the driver is asked to destroy only what it made, and the record of each object
// counts as host memory.
func TestObjects(t *testing.T) {
	host := budget.New(1 << 20)
	x, all, f := newTextures(host, nil)
	before := host.Used()
	texture, _ := x.TexObjectCreate(nil, nil, nil)
	surface, _ := x.SurfObjectCreate(nil)
	if x.Objects() != 2 || host.Used() != before+2*ObjectBytes {
		t.Errorf("%d objects, %d bytes", x.Objects(), host.Used()-before)
	}
	f.refuse = true
	if _, r := x.TexObjectCreate(nil, nil, nil); r != gpubackend.InvalidValue || x.Objects() != 2 {
		t.Errorf("refused: %d", r)
	}
	for _, test := range []struct {
		name string
		r    gpubackend.Result
		want gpubackend.Result
	}{
		{"a surface as a texture", x.TexObjectDestroy(surface), gpubackend.InvalidValue},
		{"the texture", x.TexObjectDestroy(texture), 0},
		{"the texture again", x.TexObjectDestroy(texture), gpubackend.InvalidValue},
	} {
		if test.r != test.want {
			t.Errorf("%s: %d", test.name, test.r)
		}
	}
	if all.DevicePrimaryCtxReset(0); x.Objects() != 0 || host.Used() != before {
		t.Errorf("%d objects, %d bytes in the end", x.Objects(), host.Used()-before)
	}
	host.SetLimit(host.Used())
	f.refuse = false
	if _, r := x.SurfObjectCreate(nil); r != gpubackend.OutOfMemory {
		t.Errorf("no memory: %d", r)
	}
}

// TestCopyArray: where a side of a copy is device memory, it must be the guest's.
func TestCopyArray(t *testing.T) {
	x, _, f := newTextures(nil, nil)
	for _, test := range []struct {
		name string
		side func(cudaabi.Memcpy3D) cudaabi.Memcpy3DSide
		kind uint32
		addr uint64
		want gpubackend.Result
	}{
		{"arrays", cudaabi.Memcpy3D.Src, cudaabi.MemoryTypeArray, 8, 0},
		{"device memory", cudaabi.Memcpy3D.Src, cudaabi.MemoryTypeDevice, 1 << 40, 0},
		{"from nobody's", cudaabi.Memcpy3D.Src, cudaabi.MemoryTypeDevice, 8,
			gpubackend.InvalidValue},
		{"to nobody's", cudaabi.Memcpy3D.Dst, cudaabi.MemoryTypeDevice, 8,
			gpubackend.InvalidValue},
	} {
		p := make(cudaabi.Memcpy3D, cudaabi.Memcpy3DSize)
		test.side(p).SetMemoryType(test.kind)
		test.side(p).SetDevice(test.addr)
		before := f.copied
		if r := x.CopyArray(p, 0); r != test.want || (r == 0) != (f.copied == before+1) {
			t.Errorf("%s: %d", test.name, r)
		}
	}
}

// TestReferencesAreTold: referred is called for each texture or surface reference that is found.
func TestReferencesAreTold(t *testing.T) {
	told := 0
	x, _, _ := newTextures(nil, func() { told++ })
	x.ModuleGetTexRef(1, "")
	x.ModuleGetSurfRef(1, "")
	if told != 0 {
		t.Error("told of none")
	}
	x.ModuleGetTexRef(1, "image")
	x.ModuleGetSurfRef(1, "board")
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// rig is the textures of a device without work.
type rig struct {
	*Textures
	*roomtest.Ground
	code *code.Code
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Ground: roomtest.New(t, 64<<20)}
	r.code = code.New(code.Options{
		Handles: r.Handles, Contexts: r.Ground.Contexts, Memory: r.Ground.Memory,
		Unloaded: func(m *code.Module) { r.Unloaded(m) },
	})
	r.Textures = New(Options{
		Handles: r.Handles, Contexts: r.Ground.Contexts, Memory: r.Ground.Memory, Code: r.code,
	})
	r.Ended = r.Drop
	return r
}

// board describes an array of bytes that kernels may write.
func board() []byte {
	b := make(cudaabi.Array3DDescriptor, cudaabi.Array3DDescriptorSize)
	b.SetWidth(8)
	b.SetHeight(4)
	b.SetFormat(uint32(sampler.FormatUint8))
	b.SetNumChannels(1)
	b.SetFlags(cudaabi.Array3DSurfaceLdst)
	return b
}

// of describes the array that a texture or surface is to be made of.
func of(a gpubackend.Array) []byte {
	r := make(cudaabi.ResourceDesc, cudaabi.ResourceDescSize)
	r.SetResType(cudaabi.ResourceArray)
	r.SetArray(uint64(a))
	return r
}

func TestObjectsOfAnArray(t *testing.T) {
	r := newRig(t)
	a, result := r.Array3DCreate(board())
	resulttest.OK(t, result)
	texture, result := r.TexObjectCreate(of(a), make([]byte, cudaabi.TextureDescSize), nil)
	resulttest.OK(t, result)
	surface, result := r.SurfObjectCreate(of(a))
	resulttest.OK(t, result)
	objects := r.KernelObjects()
	if x := objects.Texture(texture); x == nil || x.Levels[0].Width != 8 ||
		x.Levels[0].Height != 4 {
		t.Errorf("texture %+v", x)
	}
	if x := objects.Surface(surface); x == nil || x.Texel != 1 {
		t.Errorf("surface %+v", x)
	}
	if objects.Texture(surface) != nil || objects.Surface(texture) != nil {
		t.Error("one passes for the other")
	}
	resulttest.Want(t, r.TexObjectDestroy(surface), gpubackend.InvalidValue)
	resulttest.OK(t, r.TexObjectDestroy(texture))
	resulttest.Want(t, r.TexObjectDestroy(texture), gpubackend.InvalidValue)
	resulttest.OK(t, r.Ground.Contexts.DevicePrimaryCtxReset(0))
	if r.Count() != 0 {
		t.Errorf("%d objects outlive their context", r.Count())
	}
	resulttest.Want(t, r.ArrayDestroy(a), gpubackend.InvalidHandle)
	if free, total, _ := r.Memory.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
}

// referring is code with a texture reference.
const referring = ".version 7.0\n.target sm_80\n.address_size 64\n.global .texref line;\n" +
	".visible .entry read() { ret; }\x00"

// TestBindingsNeverChange: a launch's bindings stay as they are when the reference is bound anew.
func TestBindingsNeverChange(t *testing.T) {
	r := newRig(t)
	h, _, _, result := r.code.ModuleLoadData([]byte(referring), nil, nil, nil)
	resulttest.OK(t, result)
	line, result := r.ModuleGetTexRef(h, "line")
	resulttest.OK(t, result)
	m, result := r.code.Module(h)
	resulttest.OK(t, result)
	if b := r.Bindings(m); len(b) != 1 || b[0].Texture != nil {
		t.Fatalf("bindings %v", b)
	}
	var seen []*sampler.Texture
	for range 2 {
		_, result = r.TexRefSetAddress(line, r.Alloc(t, 4096), 4096)
		resulttest.OK(t, result)
		seen = append(seen, r.Bindings(m)[0].Texture)
	}
	if seen[0] == seen[1] || seen[0].Levels[0].Base == seen[1].Levels[0].Base {
		t.Errorf("bindings %v", seen)
	}
	resulttest.OK(t, r.code.ModuleUnload(h))
	resulttest.Want(t, r.TexRefSetFlags(line, 0), gpubackend.InvalidHandle)
}

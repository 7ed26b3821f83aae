// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const referencePTX = ".version 7.0\n.target sm_75\n.address_size 64\n.global .texref line;\n" +
	".global .surfref board;\n"

// given puts bytes into the bulk area and returns the words that refer to them.
func (r *rig) given(b []byte) (ref, bytes uint64) {
	copy(r.mem[wire.Bulk:], b)
	return bulk, uint64(len(b))
}

// loadReferences loads a module and returns it with its texture and its surface reference.
func (r *rig) loadReferences(t *testing.T) (module, texture, surface uint64) {
	t.Helper()
	const none = wire.BufferNone << 56
	ref, n := r.given([]byte(referencePTX))
	module = r.want(t, 0, gpubackend.OpModuleLoadData, ref, n, none, 0, none, 0, none, 0)
	ref, n = r.given([]byte("line"))
	texture = r.want(t, 0, gpubackend.OpModuleGetTexRef, module, ref, n)
	ref, n = r.given([]byte("board"))
	surface = r.want(t, 0, gpubackend.OpModuleGetSurfRef, module, ref, n)
	return module, texture, surface
}

// newArray makes an array for textures and surfaces.
func (r *rig) newArray(t *testing.T) uint64 {
	t.Helper()
	desc := make([]byte, cudaabi.Array3DDescriptorSize)
	a := cudaabi.Array3DDescriptor(desc)
	a.SetWidth(16)
	a.SetHeight(16)
	a.SetFormat(0x20) // floats
	a.SetNumChannels(1)
	a.SetFlags(cudaabi.Array3DSurfaceLdst)
	ref, n := r.given(desc)
	return r.want(t, 0, gpubackend.OpArray3DCreate, ref, n)
}

func TestReferencesNameTheGuestsArrays(t *testing.T) {
	r := onSoft(t)
	module, texture, surface := r.loadReferences(t)
	array := r.newArray(t)
	r.want(t, gpubackend.InvalidValue, gpubackend.OpTexRefGetArray, texture)
	r.want(t, 0, gpubackend.OpTexRefSetArray, texture, array, 1)
	r.want(t, 0, gpubackend.OpSurfRefSetArray, surface, array, 0)
	for _, c := range []struct {
		op        gpubackend.Op
		reference uint64
	}{{gpubackend.OpTexRefGetArray, texture}, {gpubackend.OpSurfRefGetArray, surface}} {
		if got := r.want(t, 0, c.op, c.reference); got != array {
			t.Errorf("%s: array %#x, want %#x", c.op.Name(), got, array)
		}
	}
	arrays := r.objects.Count(object.Array)
	r.want(t, 0, gpubackend.OpArrayDestroy, array)
	// What is destroyed gets no handle again.
	r.want(t, gpubackend.InvalidValue, gpubackend.OpTexRefGetArray, texture)
	r.want(t, gpubackend.InvalidValue, gpubackend.OpSurfRefGetArray, surface)
	if n := r.objects.Count(object.Array); n != arrays-1 {
		t.Errorf("%d arrays", n)
	}
	r.want(t, 0, gpubackend.OpModuleUnload, module)
	r.want(t, gpubackend.InvalidHandle, gpubackend.OpTexRefSetFlags, texture, 0)
	r.want(t, gpubackend.InvalidHandle, gpubackend.OpSurfRefGetArray, surface)
}

func TestHostileReferences(t *testing.T) {
	r := onSoft(t)
	module, texture, surface := r.loadReferences(t)
	array := r.newArray(t)
	made := r.want(t, 0, gpubackend.OpTexRefCreate)
	for _, tt := range []struct {
		name  string
		op    gpubackend.Op
		words []uint64
		want  gpubackend.Result
	}{
		{"forged reference", gpubackend.OpTexRefSetFlags, []uint64{77, 0},
			gpubackend.InvalidHandle},
		{"module as a reference", gpubackend.OpTexRefSetFlags, []uint64{module, 0},
			gpubackend.InvalidHandle},
		{"surface reference as a texture reference", gpubackend.OpTexRefSetArray,
			[]uint64{surface, array, 1}, gpubackend.InvalidHandle},
		{"texture reference as a surface reference", gpubackend.OpSurfRefSetArray,
			[]uint64{texture, array, 0}, gpubackend.InvalidHandle},
		{"forged array", gpubackend.OpTexRefSetArray, []uint64{texture, 77, 1},
			gpubackend.InvalidHandle},
		{"reference as an array", gpubackend.OpTexRefSetArray, []uint64{texture, made, 1},
			gpubackend.InvalidHandle},
		{"array as a mipmapped one", gpubackend.OpTexRefSetMipmappedArray,
			[]uint64{texture, array, 1}, gpubackend.InvalidHandle},
		{"small border", gpubackend.OpTexRefSetBorderColor, []uint64{texture, bulk, 12},
			gpubackend.InvalidValue},
		{"small description", gpubackend.OpTexRefSetAddress2D, []uint64{texture, bulk, 8, 0, 0},
			gpubackend.InvalidValue},
		{"memory that isn't there", gpubackend.OpTexRefSetAddress, []uint64{texture, 1 << 40, 4096},
			gpubackend.InvalidValue},
		{"a module's own destroyed", gpubackend.OpTexRefDestroy, []uint64{texture},
			gpubackend.InvalidValue},
		{"destroyed", gpubackend.OpTexRefDestroy, []uint64{made}, gpubackend.Success},
		{"destroyed twice", gpubackend.OpTexRefDestroy, []uint64{made}, gpubackend.InvalidHandle},
	} {
		t.Run(tt.name, func(t *testing.T) { r.want(t, tt.want, tt.op, tt.words...) })
	}
}

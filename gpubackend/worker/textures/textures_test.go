// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeDriver remembers the structures that it got.
type fakeDriver struct {
	gpubackend.Unsaved
	resource, copied []byte
	bound            uint64
}

func (d *fakeDriver) TexObjectCreate(resource, _, _ []byte) (uint64, gpubackend.Result) {
	d.resource = resource
	return 9, gpubackend.Success
}
func (d *fakeDriver) SurfObjectCreate(resource []byte) (uint64, gpubackend.Result) {
	d.resource = resource
	return 9, gpubackend.Success
}
func (d *fakeDriver) CopyArray(b []byte, _ gpubackend.Stream) gpubackend.Result {
	d.copied = b
	return gpubackend.Success
}
func (d *fakeDriver) TexRefGetArray(
	gpubackend.TextureReference,
) (gpubackend.Array, gpubackend.Result) {
	return gpubackend.Array(d.bound), gpubackend.Success
}
func (d *fakeDriver) TexRefGetMipmappedArray(
	gpubackend.TextureReference,
) (gpubackend.MipmappedArray, gpubackend.Result) {
	return gpubackend.MipmappedArray(d.bound), gpubackend.Success
}
func (d *fakeDriver) SurfRefGetArray(
	gpubackend.SurfaceReference,
) (gpubackend.Array, gpubackend.Result) {
	return gpubackend.Array(d.bound), gpubackend.Success
}

// Find finds a stream: the fake is the streams, too.
func (d *fakeDriver) Find(*call.Call, uint64) (gpubackend.Stream, gpubackend.Result) { return 1, 0 }

// rig is a Textures with a fake around it, and the bulk area that calls refer to.
type rig struct {
	*Textures
	driver  fakeDriver
	objects object.Table
	bulk    [1024]byte
	call    call.Call
}

func newRig() *rig {
	r := &rig{}
	r.Textures = New(Config{
		Driver: &r.driver, Objects: &r.objects, Streams: &r.driver,
		Home: func(context uint64) uint64 { return context },
	})
	r.call = call.New(&call.Buffers{
		Bulk:   func(_, n uint64) ([]byte, error) { return r.bulk[:n], nil },
		Copied: func(uint64) {},
	})
	return r
}

const bulk = wire.BufferBulk << 56

func (r *rig) do(t *testing.T, want gpubackend.Result, op gpubackend.Op, words ...uint64) {
	t.Helper()
	command := &arena.Command{N: len(words)}
	copy(command.Words[:], words)
	r.call.Start(command)
	if got := r.Handlers()[op].Run(&r.call); got != want {
		t.Errorf("%s: %v, want %v", op.Name(), got, want)
	}
}

// TestHandlesInResources become the driver's, and a handle of another kind is refused.
func TestHandlesInResources(t *testing.T) {
	r := newRig()
	array, mipmapped := r.objects.Add(object.Array, 70, 0),
		r.objects.Add(object.MipmappedArray, 71, 0)
	given := cudaabi.ResourceDesc(r.bulk[:])
	for _, tt := range []struct {
		kind    uint32
		handle  uint64
		flags   uint32
		want    gpubackend.Result
		becomes uint64
	}{
		{cudaabi.ResourceArray, array, 0, 0, 70},
		{cudaabi.ResourceMipmappedArray, mipmapped, 0, 0, 71},
		{cudaabi.ResourceLinear, 0x1234, 0, 0, 0x1234},
		{cudaabi.ResourceArray, mipmapped, 0, gpubackend.InvalidHandle, 0},
		{cudaabi.ResourceMipmappedArray, array, 0, gpubackend.InvalidHandle, 0},
		{cudaabi.ResourceArray, 77, 0, gpubackend.InvalidHandle, 0},
		{cudaabi.ResourcePitch2D + 1, 0, 0, gpubackend.InvalidValue, 0},
		{1 << 31, 0, 0, gpubackend.InvalidValue, 0},
		{cudaabi.ResourceArray, array, 1, gpubackend.InvalidValue, 0},
	} {
		given.SetResType(tt.kind)
		given.SetArray(tt.handle) // where the other kinds have theirs, too
		given.SetFlags(tt.flags)
		r.driver.resource = nil
		r.do(t, tt.want, gpubackend.OpSurfObjectCreate, bulk, cudaabi.ResourceDescSize)
		if tt.want == 0 && cudaabi.ResourceDesc(r.driver.resource).Array() != tt.becomes ||
			tt.want != 0 && r.driver.resource != nil {
			t.Errorf("kind %d, handle %#x: the driver got %x", tt.kind, tt.handle,
				r.driver.resource)
		}
	}
	if given.Array() != array {
		t.Error("the guest's own structure was changed")
	}
}

// TestCopiesOfArraysNameNoHostMemory: addresses that would be the worker's own are zeroed.
func TestCopiesOfArraysNameNoHostMemory(t *testing.T) {
	r := newRig()
	array := r.objects.Add(object.Array, 70, 0)
	for i := range r.bulk {
		r.bulk[i] = 0xff
	}
	sides := func(b []byte) []cudaabi.Memcpy3DSide {
		return []cudaabi.Memcpy3DSide{cudaabi.Memcpy3D(b).Src(), cudaabi.Memcpy3D(b).Dst()}
	}
	for i, side := range sides(r.bulk[:]) {
		side.SetMemoryType([]uint32{cudaabi.MemoryTypeArray, cudaabi.MemoryTypeDevice}[i])
		side.SetArray(array)
	}
	r.do(t, 0, gpubackend.OpCopyArray, bulk, cudaabi.Memcpy3DSize, 0)
	for i, side := range sides(r.driver.copied) {
		if side.Host() != 0 || side.Reserved() != 0 || side.Array() != []uint64{70, 0}[i] {
			t.Errorf("side %d: the driver got %x", i, r.driver.copied)
		}
	}
	for _, kind := range []uint32{0, 1, 4, 1 << 31} {
		sides(r.bulk[:])[0].SetMemoryType(kind)
		r.do(t, gpubackend.InvalidValue, gpubackend.OpCopyArray, bulk, cudaabi.Memcpy3DSize, 0)
	}
}

// TestReferencesNameWhatHasAHandle, and those of modules aren't destroyed.
func TestReferencesNameWhatHasAHandle(t *testing.T) {
	r := newRig()
	module := r.objects.Add(object.Module, 5, 0)
	own, made := r.objects.Add(object.TextureReference, 80, module),
		r.objects.Add(object.TextureReference, 81, 0)
	array := r.objects.Add(object.Array, 70, 0)
	r.driver.bound = 70
	r.do(t, 0, gpubackend.OpTexRefGetArray, own)
	if got := r.call.Answers(); len(got) != 1 || got[0] != array {
		t.Errorf("bound to %x, want %#x", got, array)
	}
	r.do(t, gpubackend.InvalidValue, gpubackend.OpTexRefGetMipmappedArray, own)
	r.do(t, gpubackend.InvalidHandle, gpubackend.OpTexRefGetArray, array)
	r.do(t, gpubackend.InvalidHandle, gpubackend.OpSurfRefGetArray, own)
	r.objects.Remove(array)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpTexRefGetArray, own)
	step := r.Steps()[gpubackend.OpTexRefDestroy]
	for reference, want := range map[uint64]gpubackend.Result{own: gpubackend.InvalidValue,
		made: gpubackend.Success} {
		command := &arena.Command{N: 1}
		command.Words[0] = reference
		r.call.Start(command)
		if got := step(&r.call,
			func(*call.Call) gpubackend.Result { return gpubackend.Success }); got != want {
			t.Errorf("destroy %#x: %v", reference, got)
		}
	}
}

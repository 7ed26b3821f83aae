// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/textures"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// large is an image of about so many KiB.
func large(kib int) []byte { return append(variables(0), bytes.Repeat([]byte(" "), kib<<10)...) }

// TestImagesCount as long as the driver has them, until their module, library or context ends.
// While an image is loaded it counts twice.
func TestImagesCount(t *testing.T) {
	host := budget.New(1 << 30)
	d := newDevice(t, Options{HostMemory: host})
	const kib = 100
	image, before := large(kib), host.Used()
	bytes := uint64(len(image))
	host.SetLimit(before + 5*bytes)
	counts := func(what string, images uint64) {
		t.Helper()
		if got := host.Used() - before; got != images*bytes {
			t.Errorf("%s: %d bytes count, want %d images of %d", what, got, images, bytes)
		}
	}
	m, _, _, r := d.ModuleLoadData(image, nil, nil, nil)
	must(t, "load a module", r)
	counts("a module", 1)
	l, _, _, r := d.LibraryLoadData(image, nil, nil, nil)
	must(t, "load a library", r)
	_, _, _, r = d.ModuleLoadData(image, nil, nil, nil)
	must(t, "load another module", r)
	_, _, _, r = d.LibraryLoadData(image, nil, nil, nil)
	must(t, "load another library", r)
	counts("four of them", 4)
	_, _, _, r = d.ModuleLoadData(image, nil, nil, nil)
	want(t, "load a module too many", r, gpubackend.OutOfMemory)
	_, _, _, r = d.LibraryLoadData(image, nil, nil, nil)
	want(t, "load a library too many", r, gpubackend.OutOfMemory)
	_, _, _, r = d.ModuleLoadData(append(large(10), "broken"...), nil, nil, nil)
	want(t, "load a broken one", r, gpubackend.InvalidPTX)
	counts("refused", 4)
	must(t, "unload the module", d.ModuleUnload(m))
	must(t, "unload the library", d.LibraryUnload(l))
	counts("unloaded", 2)
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	counts("reset", 1)
}

// TestSearchTakesMemory: that for managed variables takes host memory, and fails without.
func TestSearchTakesMemory(t *testing.T) {
	host := budget.New(1 << 30)
	d := newDevice(t, Options{HostMemory: host})
	image := append(variables(0), ".visible .global .attribute(.managed) .align 4 .u32 here;\n"...)
	image = append(image, large(100)...)
	_, _, _, r := d.ModuleLoadData(image, nil, nil, nil)
	want(t, "load it", r, gpubackend.NotReady)
	host.SetLimit(host.Used() + uint64(len(image))/2)
	_, _, _, r = d.ModuleLoadData(image, nil, nil, nil)
	want(t, "load it with no memory", r, gpubackend.OutOfMemory)
	_, r = d.ManagedBytes(image)
	want(t, "measure it with no memory", r, gpubackend.OutOfMemory)
}

// TestObjectsEndWithTheirContext: textures and surfaces that are gone with it aren't known any
// more, and don't count.
func TestObjectsEndWithTheirContext(t *testing.T) {
	host := budget.New(1 << 30)
	d := newDevice(t, Options{HostMemory: host})
	before := host.Used()
	host.SetLimit(before + 3*textures.ObjectBytes)
	make := func() (uint64, gpubackend.Result) {
		return d.TexObjectCreate(make([]byte, cudaabi.ResourceDescSize), nil, nil)
	}
	first, r := make()
	must(t, "a texture", r)
	_, r = make()
	must(t, "another", r)
	s, r := d.SurfObjectCreate(bytes.Repeat([]byte{0}, cudaabi.ResourceDescSize))
	must(t, "a surface", r)
	_, r = make()
	want(t, "one too many", r, gpubackend.OutOfMemory)
	must(t, "destroy the first", d.TexObjectDestroy(first))
	want(t, "destroy it again", d.TexObjectDestroy(first), gpubackend.InvalidValue)
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	want(t, "destroy what is gone", d.SurfObjectDestroy(s), gpubackend.InvalidValue)
	if host.Used() != before || d.Objects() != 0 {
		t.Errorf("%d bytes count, and %d objects are known", host.Used()-before, d.Objects())
	}
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"math"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/launches"
)

// loadReference loads a module, and returns it and one of its functions.
func loadReference(t *testing.T, d *Device) (gpubackend.Module, gpubackend.Function) {
	t.Helper()
	m, _, _, r := d.ModuleLoadData([]byte(twoKernels), nil, nil, nil)
	must(t, "load", r)
	f, r := d.ModuleGetFunction(m, "vector_add")
	must(t, "function", r)
	return m, f
}

func TestReferenceState(t *testing.T) {
	d := newDevice(t, Options{})
	m, _ := loadReference(t, d)
	tex, r := d.ModuleGetTexRef(m, "image")
	must(t, "texture reference", r)
	_, r = d.TexRefGetArray(tex)
	want(t, "array of none", r, gpubackend.InvalidValue)
	must(t, "array", d.TexRefSetArray(tex, 0x1234, 1))
	if a, r := d.TexRefGetArray(tex); a != 0x1234 || r != gpubackend.Success {
		t.Errorf("array %#x, result %d", a, r)
	}
	surf, r := d.ModuleGetSurfRef(m, "board")
	must(t, "surface reference", r)
	must(t, "array of a surface", d.SurfRefSetArray(surf, 0x5678, 0))
	if a, r := d.SurfRefGetArray(surf); a != 0x5678 || r != gpubackend.Success {
		t.Errorf("array %#x of a surface, result %d", a, r)
	}
	must(t, "flags", d.TexRefSetFlags(tex, 0xffffffff))
	if v, r := d.TexRefGetFlags(tex); v != 0xffffffff || r != gpubackend.Success {
		t.Errorf("flags %#x, result %d", v, r)
	}
	color := bytes.Repeat([]byte{1, 2, 3, 4}, 4)
	must(t, "border", d.TexRefSetBorderColor(tex, color))
	told := make([]byte, 16)
	must(t, "border back", d.TexRefGetBorderColor(told, tex))
	if !bytes.Equal(told, color) {
		t.Errorf("border %x", told)
	}
}

// TestReferenceNumbers passes floating-point numbers, which travel in other registers than
// integers.
func TestReferenceNumbers(t *testing.T) {
	d := newDevice(t, Options{})
	m, _ := loadReference(t, d)
	tex, r := d.ModuleGetTexRef(m, "image")
	must(t, "texture reference", r)
	bits := func(v float32) uint64 { return uint64(math.Float32bits(v)) }
	must(t, "bias", d.TexRefSetMipmapLevelBias(tex, bits(-2.5)))
	if v, r := d.TexRefGetMipmapLevelBias(tex); v != bits(-2.5) || r != gpubackend.Success {
		t.Errorf("bias %#x, result %d", v, r)
	}
	must(t, "clamp", d.TexRefSetMipmapLevelClamp(tex, bits(1.25), bits(7)))
	if a, b, r := d.TexRefGetMipmapLevelClamp(tex); a != bits(1.25) || b != bits(7) ||
		r != gpubackend.Success {
		t.Errorf("clamp %#x, %#x, result %d", a, b, r)
	}
}

// TestReferencesEndReplays: kernels that use references can't be in graphs.
func TestReferencesEndReplays(t *testing.T) {
	d := newDevice(t, Options{GraphReplay: true})
	m, f := loadReference(t, d)
	list := make([]gpubackend.Launch, launches.MinReplay)
	for i := range list {
		list[i] = *emptyLaunch(f)
		list[i].Parameters = make([]byte, 28)
	}
	launch := func() {
		t.Helper()
		if n, r := d.LaunchAll(list); n != len(list) || r != gpubackend.Success {
			t.Fatalf("%d queued, result %d", n, r)
		}
	}
	for range 4 {
		launch()
	}
	replayed, plain := drivertest.Count("cuGraphLaunch"), drivertest.Count("cuLaunchKernel")
	if replayed == 0 {
		t.Fatal("nothing was replayed")
	}
	_, r := d.ModuleGetTexRef(m, "image")
	must(t, "texture reference", r)
	launch()
	if n := drivertest.Count("cuGraphLaunch") - replayed; n != 0 {
		t.Errorf("%d replays", n)
	}
	if n := drivertest.Count("cuLaunchKernel") - plain; n != uint64(len(list)) {
		t.Errorf("%d launches", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// variables is PTX with one variable of so many MiB.
func variables(mib uint64) []byte {
	return fmt.Appendf(nil,
		".version 8.4\n.target sm_75\n.global .b8 a[%d];\n.visible .entry empty() {}\n", mib<<20)
}

func (d *Device) wantUsed(t *testing.T, what string, mib uint64) {
	t.Helper()
	if got := d.Used(0); got != mib<<20 {
		t.Errorf("%s: %d MiB count, want %d", what, got>>20, mib)
	}
}

func TestVariablesOfModulesCount(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 100 << 20})
	m, _, _, r := d.ModuleLoadData(variables(60), nil, nil, nil)
	must(t, "load", r)
	d.wantUsed(t, "loaded", 60)
	_, _, _, r = d.ModuleLoadData(variables(60), nil, nil, nil)
	want(t, "load another", r, gpubackend.OutOfMemory)
	_, _, _, r = d.ModuleLoadData(append(variables(1), "broken"...), nil, nil, nil)
	want(t, "load a broken one", r, gpubackend.InvalidPTX)
	_, _, _, r = d.ModuleLoadData([]byte(".version 8.4\n.global .b8 a[1024*1024*1024];\n"), nil,
		nil, nil)
	want(t, "load what can't be counted", r, gpubackend.NotSupported)
	d.wantUsed(t, "refused", 60)
	must(t, "unload", d.ModuleUnload(m))
	d.wantUsed(t, "unloaded", 0)
	_, _, _, r = d.ModuleLoadData(variables(60), nil, nil, nil)
	must(t, "load again", r)
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	d.wantUsed(t, "reset", 0)
}

// TestVariablesWaitForFreedMemory, as allocations do.
func TestVariablesWaitForFreedMemory(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 100 << 20})
	p := alloc(t, d, 80<<20)
	must(t, "fill", d.MemsetD8Async(p, 1, 4096, 0))
	drivertest.Tell("fake_not_ready", 1000)
	must(t, "free when busy", d.MemFree(p))
	_, _, _, r := d.ModuleLoadData(variables(60), nil, nil, nil)
	must(t, "load", r)
	d.wantUsed(t, "loaded", 60)
}

// TestVariablesOfLibrariesCount once for each context, also for one that is made later.
func TestVariablesOfLibrariesCount(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 100 << 20})
	primary := d.CurrentHandle()
	l, _, _, r := d.LibraryLoadData(variables(40), nil, nil, nil)
	must(t, "load", r)
	d.wantUsed(t, "loaded", 40)
	c, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	d.wantUsed(t, "two contexts", 80)
	_, r = d.CtxCreate(0, 0)
	want(t, "a third context", r, gpubackend.OutOfMemory)
	_, _, _, r = d.LibraryLoadData(variables(20), nil, nil, nil)
	want(t, "another library", r, gpubackend.OutOfMemory)
	d.wantUsed(t, "refused", 80)
	must(t, "destroy", d.CtxDestroy(c))
	d.wantUsed(t, "one context", 40)
	must(t, "set current", d.SetCurrent(primary))
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	d.wantUsed(t, "reset", 40)
	must(t, "release", d.DevicePrimaryCtxRelease(0))
	d.wantUsed(t, "released", 0)
	_, _, _, r = d.LibraryLoadData(variables(101), nil, nil, nil)
	want(t, "more than there is", r, gpubackend.OutOfMemory)
	_, r = d.DevicePrimaryCtxRetain(0)
	must(t, "retain", r)
	d.wantUsed(t, "retained", 40)
	must(t, "unload", d.LibraryUnload(l))
	d.wantUsed(t, "unloaded", 0)
}

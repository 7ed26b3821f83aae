// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

func alloc(tb testing.TB, d *Device, n uint64) uint64 {
	tb.Helper()
	p, r := d.MemAlloc(n)
	must(tb, "allocate", r)
	return p
}

func TestFreedMemoryWaitsForWork(t *testing.T) {
	d := newDevice(t, Options{})
	p := alloc(t, d, 4096)
	must(t, "free when idle", d.MemFree(p))
	if q := alloc(t, d, 4096); q != p {
		t.Fatalf("memory freed when idle isn't used again: %#x, %#x", p, q)
	}
	must(t, "fill", d.MemsetD8Async(p, 1, 4096, 0))
	drivertest.Tell("fake_not_ready", 1000)
	must(t, "free when busy", d.MemFree(p))
	want(t, "free twice", d.MemFree(p), gpubackend.InvalidValue)
	if q := alloc(t, d, 4096); q == p {
		t.Fatal("memory was used again while work was in flight")
	}
	drivertest.Tell("fake_not_ready", 0)
	must(t, "query", d.ContextQuery())
	if q := alloc(t, d, 4096); q != p {
		t.Fatalf("memory isn't used again after the work: %#x, %#x", p, q)
	}
}

func TestAllocateWaitsRatherThanFail(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 64 << 20})
	p := alloc(t, d, 40<<20)
	must(t, "fill", d.MemsetD8Async(p, 1, 4096, 0))
	drivertest.Tell("fake_not_ready", 1000)
	must(t, "free", d.MemFree(p))
	before := drivertest.Count("cuCtxSynchronize")
	alloc(t, d, 40<<20)
	if drivertest.Count("cuCtxSynchronize") != before+1 {
		t.Error("it didn't wait")
	}
	_, r := d.MemAlloc(40 << 20)
	want(t, "beyond the limit", r, gpubackend.OutOfMemory)
	free, total, r := d.MemGetInfo()
	must(t, "info", r)
	if total != 64<<20 || free != 24<<20 {
		t.Errorf("%d of %d MiB free", free>>20, total>>20)
	}
	drivertest.Tell("fake_fail_create", 10)
	_, r = d.MemAlloc(1 << 20)
	want(t, "the driver has none", r, gpubackend.OutOfMemory)
	drivertest.Tell("fake_fail_create", 0)
}

func TestContextEndGivesMemoryBack(t *testing.T) {
	d := newDevice(t, Options{})
	primary := d.CurrentHandle()
	c, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "set current", d.SetCurrent(c))
	p := alloc(t, d, 16<<20)
	if d.Allocations(0) != 1 {
		t.Fatalf("%d allocations", d.Allocations(0))
	}
	must(t, "destroy", d.CtxDestroy(c))
	if d.Allocations(0) != 0 || d.CurrentHandle() != 0 {
		t.Errorf("%d allocations, current %#x", d.Allocations(0), d.CurrentHandle())
	}
	want(t, "free afterwards", d.MemFree(p), gpubackend.InvalidContext)
	must(t, "set current", d.SetCurrent(primary))
	c, r = d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "destroy one that isn't current", d.CtxDestroy(c))
	if d.CurrentHandle() != primary {
		t.Errorf("current is %#x, want %#x", d.CurrentHandle(), primary)
	}
	want(t, "destroy twice", d.CtxDestroy(c), gpubackend.InvalidContext)
	alloc(t, d, 4096)
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	if d.Allocations(0) != 0 {
		t.Error("a reset left memory")
	}
	alloc(t, d, 4096)
	must(t, "release", d.DevicePrimaryCtxRelease(0))
	if d.Allocations(0) != 0 {
		t.Error("the last release left memory")
	}
	_, r = d.MemAlloc(4096)
	want(t, "allocate without a reference", r, gpubackend.InvalidContext)
	want(t, "release once more", d.DevicePrimaryCtxRelease(0), gpubackend.InvalidContext)
	again, r := d.DevicePrimaryCtxRetain(0)
	must(t, "retain again", r)
	if again != primary {
		t.Errorf("context %#x, want %#x", again, primary)
	}
	alloc(t, d, 4096)
}

func TestStagingIsShared(t *testing.T) {
	d := newDevice(t, Options{})
	addr, fd, r := d.Staging(3 << 20)
	must(t, "staging", r)
	defer unix.Close(fd)
	if addr < devmem.Base || addr >= devmem.Base+devmem.Window {
		t.Errorf("address %#x", addr)
	}
	other, err := d.Import(fd, 3<<20)
	if err != nil {
		t.Fatal(err)
	}
	in, out := bytes.Repeat([]byte{1, 2, 3}, 1<<20), make([]byte, 3<<20)
	must(t, "copy in", d.CopyIn(addr, in, 0))
	must(t, "copy out", d.CopyOut(out, other))
	if !bytes.Equal(in, out) {
		t.Error("the other mapping has other bytes")
	}
	if _, err := d.Import(fd, 8<<20); err == nil {
		t.Error("more was mapped than there is")
	}
	if err := d.Unimport(other); err != nil {
		t.Error(err)
	}
}

// TestStagingTakesFreedMemory that work may still use, and gives it back.
func TestStagingTakesFreedMemory(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 64 << 20})
	p := alloc(t, d, 48<<20)
	must(t, "fill", d.MemsetD8Async(p, 1, 4096, 0))
	drivertest.Tell("fake_not_ready", 1000)
	_, _, r := d.Staging(32 << 20)
	want(t, "staging when memory is full", r, gpubackend.OutOfMemory)
	must(t, "free when busy", d.MemFree(p))
	addr, fd, r := d.Staging(32 << 20)
	must(t, "staging", r)
	unix.Close(fd)
	d.Unstage(addr)
	if used := d.Used(0); used != 0 {
		t.Errorf("%d bytes are in use", used)
	}
}

func TestHostRegister(t *testing.T) {
	d := newDevice(t, Options{})
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	base := cmem.AddressOf(mem)
	must(t, "register", d.HostRegister(base, 1<<20, false))
	want(t, "again", d.HostRegister(base, 4096, true), gpubackend.HostMemoryAlreadyRegistered)
	p := alloc(t, d, 1<<20)
	must(t, "copy", d.Copy(p, base, 1<<20, 0))
	before := drivertest.Count("cuCtxSynchronize")
	must(t, "unregister", d.HostUnregister(base, 1<<20))
	if drivertest.Count("cuCtxSynchronize") != before+1 {
		t.Error("unregistering didn't wait for the copy")
	}
	want(t, "unregister again", d.HostUnregister(base, 1<<20), gpubackend.HostMemoryNotRegistered)
}

func TestNoContext(t *testing.T) {
	d := newDevice(t, Options{})
	must(t, "none current", d.SetCurrent(0))
	_, r := d.MemAlloc(1)
	want(t, "allocate", r, gpubackend.InvalidContext)
	want(t, "query", d.ContextQuery(), gpubackend.InvalidContext)
	want(t, "copy out", d.CopyOut(make([]byte, 1), 1), gpubackend.InvalidContext)
	want(t, "unknown context", d.SetCurrent(12345), gpubackend.InvalidContext)
	_, r = d.DevicePrimaryCtxRetain(1)
	want(t, "device 1", r, gpubackend.InvalidDevice)
	_, r = d.CtxCreate(0, ^uint64(0))
	want(t, "device -1", r, gpubackend.InvalidDevice)
}

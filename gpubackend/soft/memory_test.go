// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

func TestMemAllocAndFree(t *testing.T) {
	d := newDevice(t, Options{Memory: 64 << 20})
	free, total, result := d.MemGetInfo()
	ok(t, result)
	if free != 64<<20 || total != 64<<20 {
		t.Errorf("%d of %d bytes free", free, total)
	}
	addr := alloc(t, d, 40<<20)
	if addr < d.options.Base || addr >= d.options.Base+testWindow {
		t.Errorf("address %#x", addr)
	}
	if free, _, _ := d.MemGetInfo(); free != 24<<20 {
		t.Errorf("%d bytes free", free)
	}
	for _, c := range []struct {
		name  string
		bytes uint64
		want  gpubackend.Result
	}{
		{"nothing", 0, gpubackend.InvalidValue},
		{"more than is free", 25 << 20, gpubackend.OutOfMemory},
		{"absurd", 1<<64 - 1, gpubackend.OutOfMemory},
	} {
		if _, result := d.MemAlloc(c.bytes); result != c.want {
			t.Errorf("MemAlloc of %s: %d, want %d", c.name, result, c.want)
		}
	}
	for _, c := range []struct {
		name string
		addr uint64
		want gpubackend.Result
	}{
		{"null", 0, gpubackend.Success}, {"interior", addr + 512, gpubackend.InvalidValue},
		{"host", 0x1000, gpubackend.InvalidValue}, {"allocation", addr, gpubackend.Success},
		{"twice", addr, gpubackend.InvalidValue},
	} {
		if result := d.MemFree(c.addr); result != c.want {
			t.Errorf("MemFree of %s: %d, want %d", c.name, result, c.want)
		}
	}
	if free, _, _ := d.MemGetInfo(); free != 64<<20 {
		t.Errorf("%d bytes free in the end", free)
	}
}

func TestFreedMemoryWaitsForEarlierWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, Options{Memory: 64 << 20})
		first, second := newStream(t, d, 1), newStream(t, d, 1)
		a := alloc(t, d, 48<<20)
		open := gate(t, d, first)
		ok(t, d.MemsetD8Async(a, 7, 1<<20, first))
		ok(t, d.MemFree(a))
		if free, _, _ := d.MemGetInfo(); free != 64<<20 {
			t.Errorf("%d bytes free", free)
		}
		want(t, d.Copy(a, a+1024, 16, second), gpubackend.InvalidValue)
		synctest.Wait()
		// Only the caller can open the gate, so MemAlloc doesn't wait for the memory.
		_, result := d.MemAlloc(48 << 20)
		want(t, result, gpubackend.OutOfMemory)
		open()
		if again := alloc(t, d, 48<<20); again != a {
			t.Errorf("memory at %#x, was %#x", again, a)
		}
	})
}

func TestMemAllocWaitsForMemoryThatIsBeingFreed(t *testing.T) {
	d := newDevice(t, Options{Memory: 256 << 20})
	for range 50 {
		a := alloc(t, d, 200<<20)
		ok(t, d.MemsetD8Async(a, 1, 8<<20, 0))
		ok(t, d.MemFree(a))
	}
}

func TestMemoryOfEmptyPiecesIsZeroAndGone(t *testing.T) {
	d := newDevice(t, Options{})
	a := alloc(t, d, 64<<20)
	ok(t, d.MemsetD8Async(a, 0xff, 64<<20, 0))
	synchronize(t, d)
	ok(t, d.MemFree(a))
	if _, _, _, mapped := d.Space().View(0).Lookup(a); mapped {
		t.Error("kernels may still reach it")
	}
	fd, _, err := d.Space().Duplicate(d.Space().Base())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Blocks != 0 {
		t.Errorf("%d blocks in use: %v", stat.Blocks, err)
	}
	if b := alloc(t, d, 64<<20); !bytes.Equal(read(t, d, b, 4096), make([]byte, 4096)) {
		t.Error("old content")
	}
}

func TestStaging(t *testing.T) {
	d := newDevice(t, Options{Memory: 64 << 20})
	addr, fd, result := d.Staging(3 << 20)
	ok(t, result)
	defer unix.Close(fd)
	if free, total, _ := d.MemGetInfo(); free != 64<<20 || total != 64<<20 {
		t.Errorf("%d of %d bytes free", free, total)
	}
	mover, err := unix.Mmap(fd, 0, 3<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mover)
	copy(mover[1<<20:], "payload")
	a := alloc(t, d, 100)
	ok(t, d.Copy(a, addr+1<<20, 7, 0))
	ok(t, d.Copy(addr+2<<20, a, 7, 0))
	synchronize(t, d)
	if got := mover[2<<20 : 2<<20+7]; string(got) != "payload" {
		t.Errorf("got %q", got)
	}
	want(t, d.MemFree(addr), gpubackend.InvalidValue)
	if _, _, result := d.Staging(0); result != gpubackend.InvalidValue {
		t.Errorf("no bytes: %d", result)
	}
	if _, _, result := d.Staging(1 << 50); result != gpubackend.InvalidValue {
		t.Errorf("more than the window: %d", result)
	}
	d.Unstage(addr + 512) // not its beginning
	d.Unstage(addr)
	if free, total, _ := d.MemGetInfo(); total != 64<<20 || free > total ||
		d.Space().Heap(0).Limit() != 64<<20 {
		t.Errorf("afterwards %d of %d bytes are free, the limit is %d", free, total,
			d.Space().Heap(0).Limit())
	}
}

func TestHostMemory(t *testing.T) {
	d := newDevice(t, Options{})
	page, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	host := space.AddressOf(page)
	a := alloc(t, d, 8192)
	want(t, d.Copy(a, host, 16, 0), gpubackend.InvalidValue)
	for _, c := range []struct {
		name        string
		addr, bytes uint64
		want        gpubackend.Result
	}{
		{"null", 0, 16, gpubackend.InvalidValue}, {"nothing", host, 0, gpubackend.InvalidValue},
		{"wrapping", host, 1<<64 - 1, gpubackend.InvalidValue},
		{"device memory", a, 16, gpubackend.InvalidValue},
		{"over device memory", d.options.Base - 4096, 8192, gpubackend.InvalidValue},
		{"first page", host, 4096, gpubackend.Success},
		{"twice", host, 4096, gpubackend.HostMemoryAlreadyRegistered},
		{"overlapping", host + 4000, 200, gpubackend.HostMemoryAlreadyRegistered},
	} {
		if result := d.HostRegister(c.addr, c.bytes, true); result != c.want {
			t.Errorf("register %s: %d, want %d", c.name, result, c.want)
		}
	}
	ok(t, d.HostRegister(host+4096, 4096, false))
	copy(page[4090:], "both pages")
	ok(t, d.Copy(a, host+4090, 10, 0))
	synchronize(t, d)
	if got := read(t, d, a, 10); string(got) != "both pages" {
		t.Errorf("got %q", got)
	}
	want(t, d.Copy(host+4096, a, 1, 0), gpubackend.InvalidValue) // read-only
	ok(t, d.Copy(host, a, 10, 0))
	ok(t, d.HostUnregister(host, 4096))
	if string(page[:10]) != "both pages" {
		t.Errorf("got %q", page[:10])
	}
	want(t, d.HostUnregister(host, 4096), gpubackend.HostMemoryNotRegistered)
	want(t, d.HostUnregister(host+4096, 1), gpubackend.HostMemoryNotRegistered)
	want(t, d.Copy(a, host, 1, 0), gpubackend.InvalidValue)
}

func TestWorkAfterHostUnregisterFails(t *testing.T) {
	d := newDevice(t, Options{})
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	a := alloc(t, d, 4096)
	ok(t, d.HostRegister(space.AddressOf(page), 4096, true))
	open := gate(t, d, 0)
	ok(t, d.Copy(space.AddressOf(page), a, 4096, 0))
	ok(t, d.HostUnregister(space.AddressOf(page), 4096))
	if err := unix.Munmap(page); err != nil {
		t.Fatal(err)
	}
	open()
	want(t, wait(t, d.ContextQuery), gpubackend.IllegalAddress)
	want(t, d.MemFree(a), gpubackend.IllegalAddress)
}

func TestWindowTaken(t *testing.T) {
	d := newDevice(t, Options{})
	other := New(d.options)
	_, result := other.Open(nil)
	want(t, result, gpubackend.OutOfMemory)
	if d.options.Window%devmem.Granularity != 0 {
		t.Error("window not aligned")
	}
}

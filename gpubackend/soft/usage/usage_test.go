// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft"
)

// TestWhatADeviceTakes asks about this process, which has a software GPU: memory counts once it is
// written to, and no more once it is freed.
func TestWhatADeviceTakes(t *testing.T) {
	d := soft.New(soft.Options{Memory: 256 << 20})
	defer d.Close()
	if _, r := d.Open(nil); r != gpubackend.Success {
		t.Fatal(r)
	}
	c, r := d.DevicePrimaryCtxRetain(0)
	if r != gpubackend.Success || d.SetCurrent(c) != gpubackend.Success {
		t.Fatal(r)
	}
	const bytes = 64 << 20
	before := ask(t)
	addr, r := d.MemAlloc(bytes)
	if r != gpubackend.Success {
		t.Fatal(r)
	}
	if r := d.MemsetD8Async(addr, 1, bytes, 0); r != gpubackend.Success {
		t.Fatal(r)
	}
	for d.ContextQuery() == gpubackend.NotReady {
		time.Sleep(time.Millisecond)
	}
	if now := ask(t); now-before < bytes || now-before > bytes+1<<20 {
		t.Errorf("%d bytes more for %d", now-before, bytes)
	}
	if r := d.MemFree(addr); r != gpubackend.Success {
		t.Fatal(r)
	}
	if now := ask(t); now > before+1<<20 {
		t.Errorf("%d bytes more afterwards", now-before)
	}
}

func ask(t *testing.T) uint64 {
	t.Helper()
	u, err := Ask(1, []int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	bytes, ok := u.Used(u.GPUs()[0], os.Getpid())
	if !ok {
		t.Fatal("nothing is known of this process")
	}
	return bytes
}

func TestOtherFilesDont(t *testing.T) {
	before := ask(t)
	fd, err := unix.MemfdCreate("paracuda-else", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fallocate(fd, 0, 0, 8<<20); err != nil {
		t.Fatal(err)
	}
	if now := ask(t); now != before {
		t.Errorf("%d bytes more", now-before)
	}
}

func TestProcessesThatAreGone(t *testing.T) {
	const none = 1 << 30
	u, err := Ask(1, []int{none, os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := u.Used(u.GPUs()[0], none); ok {
		t.Error("a process that isn't there has memory")
	}
	if _, ok := u.Used(u.GPUs()[0]+1, os.Getpid()); ok {
		t.Error("a GPU that isn't there is used")
	}
}

// TestFilesOfGPUs: a file counts for the GPU that its name says.
func TestFilesOfGPUs(t *testing.T) {
	for link, want := range map[string]int{
		"/memfd:paracuda-device-0 (deleted)": 0, "/memfd:paracuda-memory-3 (deleted)": 3,
		"/memfd:paracuda-staging-15": 15, "/memfd:paracuda-staging-16": -1,
		"/memfd:paracuda-device": -1, "/memfd:paracuda-device-": -1,
		"/memfd:paracuda-device--1": -1, "/memfd:paracuda-else-1": -1, "paracuda-device-1": -1,
	} {
		if gpu, ok := gpuOf(link); ok != (want >= 0) || ok && gpu != want {
			t.Errorf("%s: %d, %t", link, gpu, ok)
		}
	}
}

// TestSeveralGPUs: memory counts for the GPU that it is on. GPUs have the numbers that they have in
// the VM, not those that the program sees.
func TestSeveralGPUs(t *testing.T) {
	d := soft.New(soft.Options{GPUs: 3, Memory: 256 << 20})
	defer d.Close()
	if _, r := d.Open([]string{"CUDA_VISIBLE_DEVICES=2,0"}); r != gpubackend.Success {
		t.Fatal(r)
	}
	c, r := d.DevicePrimaryCtxRetain(0) // GPU 2
	if r != gpubackend.Success || d.SetCurrent(c) != gpubackend.Success {
		t.Fatal(r)
	}
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 16 << 20
	addr, r := d.MemAlloc(bytes)
	if r != gpubackend.Success || d.CopyIn(addr, make([]byte, bytes), 0) != gpubackend.Success {
		t.Fatal(r)
	}
	u, err := Ask(3, []int{os.Getpid()})
	if err != nil || len(u.GPUs()) != 3 {
		t.Fatal(u, err)
	}
	for gpu, id := range u.GPUs() {
		now, ok := u.Used(id, os.Getpid())
		more := now - before[gpu]
		if !ok || gpu == 2 && (more < bytes || more > bytes+1<<20) || gpu != 2 && more != 0 {
			t.Errorf("GPU %d: %d bytes more", gpu, more)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"io"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

var (
	ok   = resulttest.OK
	want = resulttest.Want
)

// windows counts rigs, to give each addresses of its own.
var windows atomic.Uint64

const window = 16 << 30

// rig is the memory of a device without other rooms; queued is what streams would have queued.
type rig struct {
	*Memory
	*contexts.Contexts
	scheduler *scheduler.Scheduler
	queued    []*scheduler.Task
}

func newRig(t *testing.T, bytes uint64, files int) *rig {
	t.Helper()
	if bytes == 0 {
		bytes = 256 << 20
	}
	table, s := handles.New(), scheduler.New(nil)
	r := &rig{scheduler: s}
	nothing := func(*contexts.Context) {}
	r.Contexts = contexts.New(contexts.Options{
		Handles: table, Scheduler: s, Output: output.NewBuffer(nil), Memory: bytes,
		Hooks: contexts.Hooks{Usable: nothing, Ending: nothing, Ended: nothing},
	})
	r.Memory = New(Options{
		Base: devmem.Base + devmem.Window + (1024+windows.Add(1)%1024)*window, Window: window,
		Files: files, Handles: table, Contexts: r.Contexts, Scheduler: s,
		Lasts: func() []*scheduler.Task { return r.queued },
	})
	if err := r.Open(GPU{Bytes: bytes}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.Space() != nil { // the test hasn't closed it
			r.Close()
		}
	})
	r.Start(1)
	c, result := r.DevicePrimaryCtxRetain(0)
	ok(t, result)
	ok(t, r.SetCurrent(c))
	return r
}

// TestFreedMemoryIsKeptForQueuedWork: it is allocated again only when that work is done.
func TestFreedMemoryIsKeptForQueuedWork(t *testing.T) {
	r := newRig(t, 64<<20, 1)
	gate := &scheduler.Task{Class: scheduler.Host, Run: func() {}}
	r.scheduler.Submit(gate, nil)
	r.queued = []*scheduler.Task{gate}
	a, result := r.MemAlloc(48 << 20)
	ok(t, result)
	ok(t, r.MemFree(a))
	want(t, r.MemFree(a), gpubackend.InvalidValue)
	if r.Reaches(a, 1, false) {
		t.Error("freed memory can be reached")
	}
	if n, err := r.Strange(0), r.SaveLayout(io.Discard); n != 0 || err == nil {
		t.Errorf("%d pieces of it are nobody's; it is saved: %v", n, err)
	}
	if free, total, _ := r.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
	_, result = r.MemAlloc(48 << 20) // only the caller can end what uses the memory
	want(t, result, gpubackend.OutOfMemory)
	r.scheduler.Release(gate)
	b, result := r.MemAlloc(48 << 20)
	ok(t, result)
	if b != a || !r.Reaches(b, 48<<20, true) || r.Reaches(b, 48<<20+1, true) {
		t.Errorf("memory at %#x, was at %#x", b, a)
	}
}

func TestMemoryEndsWithItsContext(t *testing.T) {
	r := newRig(t, 64<<20, 1)
	h, result := r.CtxCreate(0, 0)
	ok(t, result)
	kept, result := r.MemAlloc(1 << 20)
	ok(t, result)
	ok(t, r.SetCurrent(h))
	lost, result := r.MemAlloc(1 << 20)
	ok(t, result)
	c, _ := r.Current()
	r.Drop(c)
	r.Reclaim()
	if r.Reaches(lost, 1, false) || !r.Reaches(kept, 1, false) {
		t.Error("the wrong memory is gone")
	}
}

// TestMapping maps memory at addresses that were reserved, with each kind of access.
func TestMapping(t *testing.T) {
	r := newRig(t, 0, 4)
	const bytes = gpubackend.Granularity
	addr := r.Space().Base() - 4*bytes
	ok(t, r.Reserve(addr, bytes))
	want(t, r.Reserve(addr, bytes), gpubackend.OutOfMemory)
	m, result := r.CreateMemory(bytes, 0, 0)
	ok(t, result)
	want(t, r.MapMemory(addr, 2*bytes, m), gpubackend.InvalidValue)
	ok(t, r.MapMemory(addr, bytes, m))
	if r.Reaches(addr, 1, false) {
		t.Error("reached before Protect")
	}
	for access, reached := range map[uint64][2]bool{
		gpubackend.AccessRead: {true, false}, gpubackend.AccessReadWrite: {true, true},
		gpubackend.AccessNone: {},
	} {
		ok(t, r.Protect(addr, bytes, 0, access))
		if got := [2]bool{r.Reaches(addr, bytes, false),
			r.Reaches(addr, bytes, true)}; got != reached {
			t.Errorf("access %d: reached %v", access, got)
		}
	}
	ok(t, r.UnmapMemory(addr, bytes))
	ok(t, r.Unreserve(addr, bytes))
	ok(t, r.ReleaseMemory(m))
	want(t, r.ReleaseMemory(m), gpubackend.InvalidValue)
}

func TestStagingIsNotTheGuests(t *testing.T) {
	r := newRig(t, 64<<20, 1)
	addr, fd, result := r.Staging(3 << 20)
	ok(t, result)
	defer unix.Close(fd)
	if free, total, _ := r.MemGetInfo(); free != 64<<20 || total != 64<<20 {
		t.Errorf("%d of %d bytes free", free, total)
	}
	want(t, r.MemFree(addr), gpubackend.InvalidValue)
	r.Unstage(addr + 512)
	if !r.Reaches(addr, 3<<20, true) {
		t.Error("given back by an address within")
	}
	r.Unstage(addr)
	if r.Reaches(addr, 1, false) || r.Space().Heap(0).Limit() != 64<<20 {
		t.Errorf("limit %d afterwards", r.Space().Heap(0).Limit())
	}
}

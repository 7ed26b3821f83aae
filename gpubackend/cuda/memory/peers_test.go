// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
)

// TestShareWith: a peer reaches memory from before and after the sharing, until the sharing was
// ended as often as it was begun.
func TestShareWith(t *testing.T) {
	const peer = contextstest.Native + 1
	r := newRoom(t)
	segment := func(addr uint64) uint64 {
		base, _, _, ok := r.Segment(addr)
		if !ok {
			t.Fatalf("%#x is in no segment", addr)
		}
		return base
	}
	access := func(device, addr uint64) uint64 {
		return r.fake.access[[2]uint64{device, segment(addr)}]
	}
	before := r.alloc(t, 20<<20)
	if got := access(peer, before); got != 0 {
		t.Fatalf("access %d of the peer's own accord", got)
	}
	r.fake.refuse = "access"
	if result := r.ShareWith(1, 0, true); result != gpubackend.OutOfMemory {
		t.Errorf("refused: %d", result)
	}
	r.fake.refuse = ""
	if result := r.ShareWith(1, 0, true); result != gpubackend.Success {
		t.Fatal(result)
	}
	after := r.alloc(t, 30<<20)
	for _, addr := range []uint64{before, after} {
		if got := access(peer, addr); got != gpubackend.AccessReadWrite {
			t.Errorf("%#x: access %d of the peer", addr, got)
		}
		if got := access(contextstest.Native, addr); got != gpubackend.AccessReadWrite {
			t.Errorf("%#x: access %d of its GPU", addr, got)
		}
	}
	r.PoolAccess(1, 0, gpubackend.AccessReadWrite)
	r.ShareWith(1, 0, false)
	if got := access(peer, before); got != gpubackend.AccessReadWrite {
		t.Errorf("access %d although a pool's is left", got)
	}
	r.PoolAccess(1, 0, gpubackend.AccessNone)
	for _, addr := range []uint64{before, after} {
		if got := access(peer, addr); got != gpubackend.AccessNone {
			t.Errorf("%#x: access %d afterwards", addr, got)
		}
	}
	for _, pair := range [][2]uint64{{0, 0}, {2, 0}, {0, 2}} {
		if result := r.PoolAccess(pair[0], pair[1], 3); result != gpubackend.InvalidDevice {
			t.Errorf("pair %v: %d", pair, result)
		}
	}
	if r.MemFree(before); len(r.heaps[0].backing.peers) != 0 {
		t.Error("the peer is still one")
	}
}

// TestShareRestored: memory of a layout is reached by the peers that come before it is taken, and
// memory of CreateMemory by those alone that the guest says.
func TestShareRestored(t *testing.T) {
	const peer = contextstest.Native + 1
	from := newRoom(t)
	plain, created := from.alloc(t, 512), from.create(t, 1)
	layout := from.saved(t)
	from.Close()
	r := newRoom(t)
	if err := r.RestoreLayout(layout); err != nil {
		t.Fatal(err)
	}
	is(t, "share", r.ShareWith(1, 0, true), gpubackend.Success)
	is(t, "take", r.TakeAllocation(gpubackend.Allocation{Address: plain, Bytes: 512}),
		gpubackend.Success)
	is(t, "take", r.TakeMemory(gpubackend.CreatedMemory{Memory: created, Bytes: page}),
		gpubackend.Success)
	is(t, "map", r.MapMemory(first, page, created), gpubackend.Success)
	base, _, _, _ := r.Segment(plain)
	for addr, want := range map[uint64]uint64{base: gpubackend.AccessReadWrite, first: 0} {
		if got := r.fake.access[[2]uint64{peer, addr}]; got != want {
			t.Errorf("%#x: access %d of the peer, want %d", addr, got, want)
		}
	}
	is(t, "unmap", r.UnmapMemory(first, page), gpubackend.Success)
}

// TestWhose: the driver says on which GPU memory of another process is, if it can.
func TestWhose(t *testing.T) {
	r := newRoom(t)
	for i := range uint64(2) {
		r.fake.whose = contextstest.Native + i
		if gpu, ok := r.Whose(3); !ok || gpu != int(i) {
			t.Errorf("GPU %d, %t; want %d", gpu, ok, i)
		}
	}
	r.fake.whose = contextstest.Native + 9
	if gpu, ok := r.Whose(3); ok {
		t.Errorf("GPU %d", gpu)
	}
	r.fake.whose = contextstest.Native
	r.fake.refuse = "device"
	if gpu, ok := r.Whose(3); ok {
		t.Errorf("nobody says: GPU %d", gpu)
	}
	if len(r.fake.live) != 0 {
		t.Errorf("handles that are left: %v", r.fake.live)
	}
	r.fake.refuse = "import"
	if gpu, ok := r.Whose(3); ok {
		t.Errorf("no memory: GPU %d", gpu)
	}
}

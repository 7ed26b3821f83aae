// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"maps"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

const (
	page = devmem.Granularity
	// Where guests map memory.
	first, second = 0x400000000000, 0x410000000000
)

func is(t *testing.T, what string, got, want gpubackend.Result) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func (r *room) create(t *testing.T, pages uint64) gpubackend.Memory {
	t.Helper()
	m, result := r.CreateMemory(pages*page, 0, 0)
	is(t, "create", result, gpubackend.Success)
	return m
}

// mapped is a room with memory that is mapped twice, once for two GPUs and once for nobody.
func mappedTwice(t *testing.T) (*room, gpubackend.Memory) {
	t.Helper()
	r := newRoom(t)
	m := r.create(t, 3)
	is(t, "map", r.MapMemory(first, 3*page, m), gpubackend.Success)
	is(t, "map", r.MapMemory(second, 3*page, m), gpubackend.Success)
	is(t, "protect", r.Protect(first, 3*page, 0, gpubackend.AccessReadWrite), gpubackend.Success)
	is(t, "protect", r.Protect(first, 3*page, 1, gpubackend.AccessRead), gpubackend.Success)
	is(t, "protect", r.Protect(second, 3*page, 0, gpubackend.AccessRead), gpubackend.Success)
	is(t, "protect", r.Protect(second, 3*page, 0, gpubackend.AccessNone), gpubackend.Success)
	return r, m
}

// TestCreatedMoves: memory of CreateMemory leaves and returns with its mappings and their access,
// and counts only while it is there.
func TestCreatedMoves(t *testing.T) {
	r, m := mappedTwice(t)
	list := r.Pieces()
	if len(list) != 1 || list[0] != (gpubackend.Piece{Address: uint64(m), Bytes: 3 * page}) {
		t.Fatalf("pieces %+v, want memory %#x", list, m)
	}
	if present := r.PresentPieces(); len(present) != 1 || r.Strange() != 0 {
		t.Errorf("present are %+v; %d allocations are strange", present, r.Strange())
	}
	used := r.Used(0)
	if used != 3*page {
		t.Errorf("%d bytes count", used)
	}
	mapped, access := maps.Clone(r.fake.mapped), maps.Clone(r.fake.access)
	is(t, "leave", r.LeavePieces(list), gpubackend.Success)
	if len(r.fake.mapped) != 0 || len(r.fake.live) != 0 || r.Used(0) != 0 {
		t.Errorf("mapped are %v, handles %v, %d bytes count", r.fake.mapped, r.fake.live, r.Used(0))
	}
	clear(r.fake.access)
	for _, refuse := range []string{"create", "map", "access"} {
		r.fake.refuse = refuse
		is(t, "return without "+refuse, r.ReturnPieces(list), gpubackend.OutOfMemory)
		if len(r.fake.mapped) != 0 || len(r.fake.live) != 0 || r.Used(0) != 0 {
			t.Errorf("without %s, mapped are %v, handles %v", refuse, r.fake.mapped, r.fake.live)
		}
	}
	r.fake.refuse = ""
	clear(r.fake.access)
	is(t, "return", r.ReturnPieces(list), gpubackend.Success)
	delete(access, [2]uint64{contextstest.Native, second}) // nobody has access there
	if !maps.Equal(r.fake.mapped, mapped) || !maps.Equal(r.fake.access, access) ||
		r.Used(0) != used {
		t.Errorf("mapped are %v with %v, before %v with %v", r.fake.mapped, r.fake.access, mapped,
			access)
	}
	is(t, "unmap", r.UnmapMemory(first, 3*page), gpubackend.Success)
	is(t, "unmap", r.UnmapMemory(second, 3*page), gpubackend.Success)
	is(t, "release", r.ReleaseMemory(m), gpubackend.Success)
	is(t, "release again", r.ReleaseMemory(m), gpubackend.InvalidValue)
	if len(r.fake.live)+len(r.fake.mapped)+r.Allocations(0) != 0 || r.Used(0) != 0 {
		t.Errorf("%v, %v, %d bytes are left", r.fake.live, r.fake.mapped, r.Used(0))
	}
}

// TestShownWhileCopied: the GPU copies memory in the window, where it is mapped from the first copy
// until it ends, whoever may access it elsewhere. Peers of the window don't reach it there.
func TestShownWhileCopied(t *testing.T) {
	r, m := mappedTwice(t)
	is(t, "share", r.ShareWith(1, 0, true), gpubackend.Success)
	list, image := r.Pieces(), make([]byte, 3*page)
	for _, refuse := range []string{"map", "access"} {
		r.fake.refuse = refuse
		is(t, "copy without "+refuse, r.SavePieces(list, image), gpubackend.OutOfMemory)
		if r.fake.mapped[uint64(m)] != 0 {
			t.Errorf("without %s it is mapped all the same", refuse)
		}
	}
	r.fake.refuse = "stream" // then it is as far as the copy
	is(t, "copy", r.SavePieces(list, image), gpubackend.OutOfMemory)
	r.fake.refuse = ""
	if r.fake.mapped[uint64(m)] != 3*page ||
		r.fake.access[[2]uint64{contextstest.Native, uint64(m)}] != gpubackend.AccessReadWrite ||
		r.fake.access[[2]uint64{contextstest.Native + 1, uint64(m)}] != gpubackend.AccessNone {
		t.Errorf("mapped are %v with %v", r.fake.mapped, r.fake.access)
	}
	is(t, "leave", r.LeavePieces(list), gpubackend.Success)
	is(t, "return", r.ReturnPieces(list), gpubackend.Success)
	if r.fake.mapped[uint64(m)] != 0 || len(r.fake.mapped) != 2 {
		t.Errorf("it is mapped before it is copied: %v", r.fake.mapped)
	}
	r.Close()
	if len(r.fake.mapped)+len(r.fake.live) != 0 {
		t.Errorf("%v and %v are left", r.fake.mapped, r.fake.live)
	}
}

// saved is the layout of a room's memory.
func (r *room) saved(t *testing.T) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	if err := r.SaveLayout(&b); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestTaken: another process has memory of CreateMemory by the same number, next to what was
// allocated, and nothing that wasn't there.
func TestTaken(t *testing.T) {
	from := newRoom(t)
	plain, a, b := from.alloc(t, 512), from.create(t, 1), from.create(t, 2)
	layout := from.saved(t).Bytes()
	from.Close()
	taken := gpubackend.CreatedMemory{Memory: a, Bytes: page, Compression: 1}
	for what, x := range map[string]struct {
		m      gpubackend.CreatedMemory
		refuse string
		want   gpubackend.Result
	}{
		"no such device":   {m: gpubackend.CreatedMemory{Memory: a, Bytes: page, Device: 9}},
		"another device's": {m: gpubackend.CreatedMemory{Memory: a, Bytes: page, Device: 1}},
		"larger":           {m: gpubackend.CreatedMemory{Memory: a, Bytes: 2 * page}},
		"not there":        {m: gpubackend.CreatedMemory{Memory: b + page, Bytes: page}},
		"elsewhere":        {m: gpubackend.CreatedMemory{Memory: 5, Bytes: page}},
		"allocated": {m: gpubackend.CreatedMemory{Memory: gpubackend.Memory(plain),
			Bytes: 512}},
		"without room": {m: taken, refuse: "create", want: gpubackend.OutOfMemory},
	} {
		r := newRoom(t)
		if err := r.RestoreLayout(bytes.NewReader(layout)); err != nil {
			t.Fatal(err)
		}
		r.fake.refuse = x.refuse
		if x.want == 0 {
			x.want = gpubackend.InvalidValue
		}
		if got := r.TakeMemory(x.m); got != x.want {
			t.Errorf("%s: %v, want %v", what, got, x.want)
		}
		r.Close()
	}
	r := newRoom(t)
	if err := r.RestoreLayout(bytes.NewReader(layout)); err != nil {
		t.Fatal(err)
	}
	if len(r.fake.live) != 0 || len(r.fake.mapped) != 1 {
		t.Errorf("handles %v, mapped %v: want what was allocated", r.fake.live, r.fake.mapped)
	}
	is(t, "take", r.TakeMemory(taken), gpubackend.Success)
	is(t, "take twice", r.TakeMemory(taken), gpubackend.InvalidValue)
	is(t, "allocation", r.TakeAllocation(gpubackend.Allocation{Address: plain, Bytes: 512}),
		gpubackend.Success)
	if r.LayoutRestored() == nil {
		t.Error("memory is missing, and nobody says so")
	}
	is(t, "take", r.TakeMemory(gpubackend.CreatedMemory{Memory: b, Bytes: 2 * page}),
		gpubackend.Success)
	if err := r.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	is(t, "map", r.MapMemory(first, page, a), gpubackend.Success)
	if !r.Backed(first+page-1) || r.Backed(first+page) || r.Strange() != 0 {
		t.Error("what is mapped isn't known")
	}
	is(t, "unmap", r.UnmapMemory(first, page), gpubackend.Success)
	is(t, "take later", r.TakeMemory(taken), gpubackend.InvalidValue)
	if len(r.fake.live) != 2 || r.Backed(first) {
		t.Errorf("handles %v", r.fake.live)
	}
}

// TestNothingIsLeftOfRefusedMemory whatever the driver refuses.
func TestNothingIsLeftOfRefusedMemory(t *testing.T) {
	r := newRoom(t)
	r.fake.refuse, r.fake.trims = "create", true
	_, result := r.CreateMemory(page, 0, 0)
	is(t, "create", result, gpubackend.OutOfMemory)
	if r.fake.trims {
		t.Error("graphs weren't asked for what they don't use")
	}
	r.fake.refuse = ""
	_, result = r.CreateMemory(65<<20, 0, 0)
	is(t, "more than there may be", result, gpubackend.OutOfMemory)
	_, result = r.CreateMemory(page, 9, 0)
	is(t, "of no device", result, gpubackend.InvalidDevice)
	if r.Used(0) != 0 || r.Allocations(0) != 0 || r.Strange() != 0 {
		t.Errorf("%d bytes count, %d allocations", r.Used(0), r.Allocations(0))
	}
	m := r.create(t, 1)
	r.fake.refuse = "map"
	is(t, "map", r.MapMemory(first, page, m), gpubackend.OutOfMemory)
	r.fake.refuse = ""
	is(t, "leave", r.LeavePieces(r.Pieces()), gpubackend.Success)
	is(t, "return", r.ReturnPieces([]gpubackend.Piece{{Address: uint64(m), Bytes: page}}),
		gpubackend.Success)
	if len(r.fake.mapped) != 0 {
		t.Errorf("%v is mapped, which the driver had refused", r.fake.mapped)
	}
}

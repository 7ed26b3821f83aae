// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// TestMemoryFilesAreBounded: memory is a file whether it is created or imported.
func TestMemoryFilesAreBounded(t *testing.T) {
	const most = 3
	d := newRig(t, 0, most)
	var files []gpubackend.Memory
	for range most - 1 {
		m, result := d.CreateMemory(gpubackend.Granularity, 0, 0)
		ok(t, result)
		files = append(files, m)
	}
	fd, result := d.ExportMemory(files[0])
	ok(t, result)
	defer unix.Close(fd)
	imported, result := d.ImportMemory(fd, gpubackend.Granularity, 0)
	ok(t, result)
	for range 2 {
		_, result = d.CreateMemory(gpubackend.Granularity, 0, 0)
		want(t, result, gpubackend.OutOfMemory)
		_, result = d.ImportMemory(fd, gpubackend.Granularity, 0)
		want(t, result, gpubackend.OutOfMemory)
	}
	ok(t, d.ReleaseMemory(imported))
	last, result := d.CreateMemory(gpubackend.Granularity, 0, 0)
	ok(t, result)
	for _, m := range append(files, last) {
		ok(t, d.ReleaseMemory(m))
	}
	if d.files != 0 || d.Space().Heap(0).Used() != 0 {
		t.Errorf("%d files, %d bytes stay counted", d.files, d.Space().Heap(0).Used())
	}
}

// TestFilesEndWithTheDevice: a program that ends without releasing memory leaves no file.
func TestFilesEndWithTheDevice(t *testing.T) {
	d := newRig(t, 0, 4)
	m, result := d.CreateMemory(gpubackend.Granularity, 0, 0)
	ok(t, result)
	fd, result := d.ExportMemory(m)
	ok(t, result)
	defer unix.Close(fd)
	_, result = d.ImportMemory(fd, gpubackend.Granularity, 0)
	ok(t, result)
	files := []int{d.created[uint64(m)].file}
	for _, object := range d.options.Handles.All() {
		if p, ok := object.(*physical); ok {
			files = append(files, p.file)
		}
	}
	d.Close()
	if len(files) != 2 || d.files != 0 {
		t.Errorf("%d files, %d stay counted", len(files), d.files)
	}
	for _, file := range files {
		if _, err := unix.FcntlInt(uintptr(file), unix.F_GETFD, 0); err == nil {
			t.Errorf("descriptor %d stays open", file)
		}
	}
}

// TestCreatedMoves: memory of CreateMemory leaves and returns where it is mapped, with its content.
// While it is out it takes nothing of the host's memory, and counts for nothing.
func TestCreatedMoves(t *testing.T) {
	const size, base = 2 * gpubackend.Granularity, 0x4f0000000000
	r := newRig(t, 64<<20, 4)
	m, result := r.CreateMemory(size, 0, 0)
	ok(t, result)
	hidden, result := r.CreateMemory(size, 0, 0)
	ok(t, result)
	ok(t, r.Reserve(base, 2*size))
	ok(t, r.MapMemory(base, size, hidden))
	copy(space.Bytes(base+size-6, 6), "hidden")
	ok(t, r.UnmapMemory(base, size))
	ok(t, r.MapMemory(base, size, m))
	ok(t, r.MapMemory(base+size, size, m))
	copy(space.Bytes(base+5, 4), "here")
	list := r.Pieces()
	if len(list) != 2 || len(r.PresentPieces()) != 2 || r.Strange(0) != 0 {
		t.Fatalf("pieces %+v, %d allocations are strange", list, r.Strange(0))
	}
	image := make([]byte, gpubackend.PieceBytes(list))
	ok(t, r.SavePieces(list, image))
	ok(t, r.LeavePieces(list))
	if used := r.Space().Heap(0).Used(); used != 0 {
		t.Errorf("%d bytes count", used)
	}
	for _, p := range r.created {
		var st unix.Stat_t
		if err := unix.Fstat(p.file, &st); err != nil || st.Blocks != 0 {
			t.Errorf("its file has %d blocks, %v", st.Blocks, err)
		}
	}
	r.Space().Heap(0).SetLimit(size)
	want(t, r.ReturnPieces(list), gpubackend.OutOfMemory)
	r.Space().Heap(0).SetLimit(64 << 20)
	ok(t, r.ReturnPieces(list))
	ok(t, r.LoadPieces(list, image))
	for at, has := range map[uint64]string{base + 5: "here", base + size + 5: "here",
		uint64(hidden) + size - 6: "hidden"} {
		if text := string(space.Bytes(at, uint64(len(has)))); text != has {
			t.Errorf("at %#x is %q, want %q", at, text, has)
		}
	}
	ok(t, r.UnmapMemory(base, size))
	ok(t, r.UnmapMemory(base+size, size))
	ok(t, r.Unreserve(base, 2*size))
	ok(t, r.ReleaseMemory(m))
	ok(t, r.ReleaseMemory(hidden))
	want(t, r.ReleaseMemory(m), gpubackend.InvalidValue)
	if r.files != 0 || r.Space().Heap(0).Used() != 0 || len(r.Pieces()) != 0 {
		t.Errorf("%d files, %+v are left", r.files, r.Pieces())
	}
}

// TestTaken: memory is taken over by its number, once, as what it was.
func TestTaken(t *testing.T) {
	const page = gpubackend.Granularity
	from := newRig(t, 64<<20, 4)
	plain, result := from.MemAlloc(512)
	ok(t, result)
	m, result := from.CreateMemory(page, 0, 0)
	ok(t, result)
	var layout bytes.Buffer
	if err := from.SaveLayout(&layout); err != nil {
		t.Fatal(err)
	}
	o := from.options
	from.Close()
	again := func(t *testing.T, files int) *rig {
		t.Helper()
		r := newRig(t, 64<<20, files)
		r.Close()
		r.options.Base = o.Base
		if err := r.Open(GPU{Bytes: 64 << 20}); err != nil {
			t.Fatal(err)
		}
		if err := r.RestoreLayout(bytes.NewReader(layout.Bytes())); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := again(t, 1)
	for _, x := range []struct {
		m    gpubackend.CreatedMemory
		want gpubackend.Result
	}{
		{gpubackend.CreatedMemory{Memory: m, Bytes: page, Device: 9}, gpubackend.InvalidDevice},
		{gpubackend.CreatedMemory{Memory: m, Bytes: 2 * page}, gpubackend.InvalidValue},
		{gpubackend.CreatedMemory{Memory: m + page, Bytes: page}, gpubackend.InvalidValue},
		{gpubackend.CreatedMemory{Memory: 5, Bytes: page}, gpubackend.InvalidValue},
		{gpubackend.CreatedMemory{Memory: gpubackend.Memory(plain), Bytes: 512},
			gpubackend.InvalidValue},
		{gpubackend.CreatedMemory{Memory: m, Bytes: page}, gpubackend.Success},
		{gpubackend.CreatedMemory{Memory: m, Bytes: page}, gpubackend.InvalidValue},
	} {
		if got := r.TakeMemory(x.m); got != x.want {
			t.Errorf("%+v: %v, want %v", x.m, got, x.want)
		}
	}
	ok(t, r.TakeAllocation(gpubackend.Allocation{Address: plain, Bytes: 512}))
	if err := r.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	full := again(t, 0)
	want(t, full.TakeMemory(gpubackend.CreatedMemory{Memory: m, Bytes: page}),
		gpubackend.OutOfMemory)
	full.Close()
	poor := again(t, 1)
	poor.Space().Heap(0).SetLimit(0)
	want(t, poor.TakeMemory(gpubackend.CreatedMemory{Memory: m, Bytes: page}),
		gpubackend.OutOfMemory)
	if len(poor.created) != 0 || poor.files != 0 {
		t.Errorf("%d files stay", poor.files)
	}
}

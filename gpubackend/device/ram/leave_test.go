// SPDX-License-Identifier: Apache-2.0

package ram

import (
	"errors"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// TestNumbersAreTold: a process that asks gets numbers, and no files.
func TestNumbersAreTold(t *testing.T) {
	r, _ := newRAM()
	if m, files := r.MessageTo(true); m.Memory != nil || files != nil {
		t.Errorf("%+v of no memory", m)
	}
	mem := mapped(t, r)
	r.Put(mem)
	m, files := r.MessageTo(true)
	want := handover.Region{Size: guestBytes, File: firstNumber, Piece: 4096,
		Sealed: mem.ShrinkSealed()}
	if len(files) != 0 || m.Files.Memory != 0 || len(m.Memory) != 1 || m.Memory[0] != want {
		t.Errorf("%+v, files %v, want %+v", m, files, want)
	}
	if m, files := r.MessageTo(false); m.Files.Memory != 1 || len(files) != 1 {
		t.Errorf("%+v, files %v", m, files)
	}
	guest, other := mem.Regions()[0].FD, virtqueuetest.MemFD(t, 4096)
	if !r.HasAny([]int{other, guest}) || r.HasAny([]int{other}) || r.HasAny(nil) {
		t.Error("another file is the guest's")
	}
	if !r.Stands(firstNumber) || r.Stands(firstNumber+1) ||
		!slices.Equal(r.Numbers(), []uint32{firstNumber}) {
		t.Error("another number stands for it")
	}
	r.Put(mapped(t, r))
	if r.Stands(firstNumber) || !r.Stands(firstNumber+1) {
		t.Error("the number of what is gone stands for it")
	}
}

// TestWhatMayBeMapped: the guest's memory, by the number of its file.
func TestWhatMayBeMapped(t *testing.T) {
	r, _ := newRAM()
	if err := r.Allow(mapleave.Mapping{Number: firstNumber, Length: 4096}, nil); !errors.Is(err,
		ErrNotGuests) {
		t.Errorf("without memory: %v", err)
	}
	mem := mapped(t, r)
	r.Put(mem)
	const last = guestBytes - 4096
	for _, x := range []struct {
		m  mapleave.Mapping
		ok bool
	}{
		{mapleave.Mapping{Number: firstNumber, Length: 4096}, true},
		{mapleave.Mapping{Number: firstNumber, Length: guestBytes, Writable: true}, true},
		{mapleave.Mapping{Number: firstNumber, Offset: last, Length: 4096}, true},
		{mapleave.Mapping{Number: firstNumber, Offset: last, Length: 8192}, false},
		{mapleave.Mapping{Number: firstNumber, Offset: guestBytes, Length: 4096}, false},
		{mapleave.Mapping{Number: firstNumber, Offset: 1 << 61, Length: 1 << 61}, false},
		{mapleave.Mapping{Number: firstNumber + 1, Length: 4096}, false},
		{mapleave.Mapping{Length: 4096}, false},
	} {
		given := -1
		err := r.Allow(x.m, func(fd int) error { given = fd; return nil })
		if (err == nil) != x.ok || x.ok && given != mem.Regions()[0].FD ||
			!x.ok && (given >= 0 || !errors.Is(err, ErrNotGuests)) {
			t.Errorf("%+v: file %d, %v", x.m, given, err)
		}
	}
	no := errors.New("no")
	page := mapleave.Mapping{Number: firstNumber, Length: 4096}
	err := r.Allow(page, func(int) error { return no })
	if !errors.Is(err, no) {
		t.Errorf("the file isn't given: %v", err)
	}
}

// TestHugePages: a region is what its huge pages have, since nothing less can be mapped.
func TestHugePages(t *testing.T) {
	const huge = 2 << 20
	x := &guestmem.Numbered{Region: guestmem.Region{Size: huge, FileOffset: huge + 4096},
		Piece: huge}
	for _, r := range []struct {
		offset, length uint64
		ok             bool
	}{
		{huge, 2 * huge, true}, {huge, 1, true}, {2 * huge, huge, true}, {2 * huge, 4096, true},
		{0, huge, false}, {huge, 2*huge + 1, false}, {2 * huge, huge + 1, false},
		{3 * huge, 1, false},
	} {
		if holds(x, r.offset, r.length) != r.ok {
			t.Errorf("%d bytes at %#x: %t", r.length, r.offset, !r.ok)
		}
	}
}

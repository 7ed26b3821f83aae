// SPDX-License-Identifier: Apache-2.0

package ram

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
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
	want := handover.Region{Size: guestBytes, File: firstNumber, ReadFile: firstNumber, Piece: 4096,
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
		!slices.Equal(r.Numbers(), []uint32{firstNumber, firstNumber + 4}) {
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
	none := mapleave.Mapping{Number: firstNumber, Length: 4096}
	if err := r.Allow(none, nil, nil); !errors.Is(err, ErrNotGuests) {
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
		err := r.Allow(x.m, nil, func(fd int) error { given = fd; return nil })
		if (err == nil) != x.ok || x.ok && given != mem.Regions()[0].FD ||
			!x.ok && (given >= 0 || !errors.Is(err, ErrNotGuests)) {
			t.Errorf("%+v: file %d, %v", x.m, given, err)
		}
	}
	no := errors.New("no")
	page := mapleave.Mapping{Number: firstNumber, Length: 4096}
	err := r.Allow(page, nil, func(int) error { return no })
	if !errors.Is(err, no) {
		t.Errorf("the file isn't given: %v", err)
	}
}

// TestHugePages: a region is what its huge pages have, since nothing less can be mapped.
func TestHugePages(t *testing.T) {
	const huge = 2 << 20
	x := &part{Numbered: guestmem.Numbered{Piece: huge,
		Region: guestmem.Region{Size: huge, FileOffset: huge + 4096}}}
	for _, r := range []struct {
		offset, length uint64
		ok             bool
	}{
		{huge, 2 * huge, true}, {huge, 1, true}, {2 * huge, huge, true}, {2 * huge, 4096, true},
		{0, huge, false}, {huge, 2*huge + 1, false}, {2 * huge, huge + 1, false},
		{3 * huge, 1, false},
	} {
		if x.holds(all, r.offset, r.length) != r.ok {
			t.Errorf("%d bytes at %#x: %t", r.length, r.offset, !r.ok)
		}
	}
}

// TestWhatHasARun: of a region that is mapped in pages, those are a run's that have some of it.
func TestWhatHasARun(t *testing.T) {
	const at, size, page = 1 << 20, 8 * 4096, 4096
	x := &part{Numbered: guestmem.Numbered{Piece: page,
		Region: guestmem.Region{GuestAddr: at, Size: size, FileOffset: 16 * page}}}
	for _, r := range []struct {
		run            wire.Run
		offset, length uint64
		ok             bool
	}{
		{wire.Run{Address: at + page, Bytes: page}, 17 * page, page, true},
		{wire.Run{Address: at + page, Bytes: page}, 16 * page, page, false},
		{wire.Run{Address: at + page, Bytes: page}, 17 * page, 2 * page, false},
		{wire.Run{Address: at + page, Bytes: page}, 18 * page, page, false},
		{wire.Run{Address: at + page - 1, Bytes: 2}, 16 * page, 2 * page, true},
		{wire.Run{Address: at + page, Bytes: 1}, 17 * page, page, true},
		{wire.Run{Address: at - page, Bytes: 2 * page}, 16 * page, page, true},
		{wire.Run{Address: at - page, Bytes: 2 * page}, 15 * page, page, false},
		{wire.Run{Address: at + size - 1, Bytes: 10 * page}, 23 * page, page, true},
		{wire.Run{Address: at + size - 1, Bytes: 10 * page}, 23 * page, 2 * page, false},
		{wire.Run{Address: at - page, Bytes: page}, 16 * page, page, false},
		{wire.Run{Address: at + size, Bytes: page}, 23 * page, page, false},
		{wire.Run{Address: at}, 16 * page, page, false},
		{wire.Run{}, 16 * page, page, false},
		{wire.Run{Address: at, Bytes: 1<<64 - at}, 16 * page, page, true},
		{wire.Run{Address: at, Bytes: 1<<64 - at + 1}, 16 * page, page, false},
		{all, 16 * page, size, true},
	} {
		if x.holds(r.run, r.offset, r.length) != r.ok {
			t.Errorf("%+v: %d bytes at %#x: %t", r.run, r.length, r.offset, !r.ok)
		}
	}
}

// TestByWhatRight: whoever decides sees the guest's memory, and is asked about what is mapped
// alone. A fault there is a refusal.
func TestByWhatRight(t *testing.T) {
	r, _ := newRAM()
	mem := mapped(t, r)
	r.Put(mem)
	if err := mem.Write([]byte{42}, 8192); err != nil {
		t.Fatal(err)
	}
	page := mapleave.Mapping{Number: firstNumber, Offset: 8192, Length: 4096}
	no := errors.New("no")
	by := func(m vouchers.Memory, write bool, has func(wire.Run) bool) error {
		switch {
		case write:
			t.Error("it is to be written")
		case m.At(8192, 1)[0] != 42, m.At(guestBytes, 1) != nil, m.At(0, guestBytes+1) != nil:
			t.Error("it sees something else")
		case has(wire.Run{Address: 4096, Bytes: 4096}), !has(wire.Run{Address: 8192, Bytes: 1}):
			t.Error("something else is mapped")
		}
		return no
	}
	give := func(int) error { t.Error("the file is given"); return nil }
	if err := r.Allow(page, by, give); !errors.Is(err, no) {
		t.Error(err)
	}
	if err := unix.Ftruncate(mem.Regions()[0].FD, 0); err != nil {
		t.Fatal(err)
	}
	var seen byte
	by = func(m vouchers.Memory, _ bool, _ func(wire.Run) bool) error {
		seen = m.At(8192, 1)[0]
		return nil
	}
	if err := r.Allow(page, by, give); !errors.Is(err, guestmem.ErrFault) {
		t.Errorf("memory that was cut off: %v, %d", err, seen)
	}
}

// TestFilesToRead: a file that can be opened to be read only has another number then, and by the
// first one only what may be written is mapped.
func TestFilesToRead(t *testing.T) {
	opened := 0
	r, _ := newRAMWith(opener{func(fd int) (*os.File, error) {
		opened++
		return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	}, takePermissions})
	r.Put(mapped(t, r))
	m, _ := r.MessageTo(true)
	const toRead = firstNumber + 4
	if opened != 1 || m.Memory[0].File != firstNumber || m.Memory[0].ReadFile != toRead ||
		!r.Stands(toRead) || len(r.Numbers()) != 2 {
		t.Errorf("opened %d files: %+v", opened, m.Memory)
	}
	for _, x := range []struct {
		m     mapleave.Mapping
		write bool
	}{
		{mapleave.Mapping{Number: toRead, Length: 4096}, false},
		{mapleave.Mapping{Number: toRead, Length: 4096, Writable: true}, true},
		{mapleave.Mapping{Number: firstNumber, Length: 4096}, true},
		{mapleave.Mapping{Number: firstNumber, Length: 4096, Writable: true}, true},
	} {
		asked, given := false, -1
		err := r.Allow(x.m, func(_ vouchers.Memory, write bool, has func(wire.Run) bool) error {
			if asked = write; !has(all) {
				t.Errorf("%+v isn't the guest's", x.m)
			}
			return nil
		}, func(fd int) error { given = fd; return nil })
		flags, e := unix.FcntlInt(uintptr(given), unix.F_GETFL, 0)
		if err != nil || e != nil || asked != x.write ||
			(flags&unix.O_ACCMODE == unix.O_RDONLY) != (x.m.Number == toRead) {
			t.Errorf("%+v, to write: %t: flags %#o, %v, %v", x.m, asked, flags, err, e)
		}
	}
	second := mapped(t, r)
	if r.Put(second); opened != 2 || r.Stands(toRead) || !r.Stands(toRead+1) {
		t.Errorf("opened %d files", opened)
	}
	r.Put(nil)
}

// TestFilesThatCantBeOpenedAgain: then they are mapped to be read by their one number, and that is
// said once.
func TestFilesThatCantBeOpenedAgain(t *testing.T) {
	r, text := newRAMWith(opener{
		func(int) (*os.File, error) { return nil, errors.New("no") }, takePermissions,
	})
	for range 2 {
		r.Put(mapped(t, r))
	}
	m, _ := r.MessageTo(true)
	if m.Memory[0].File != m.Memory[0].ReadFile || strings.Count(text.String(), "error=no") != 1 {
		t.Errorf("%+v: %s", m.Memory, text)
	}
	page := mapleave.Mapping{Number: uint32(m.Memory[0].File), Length: 4096}
	by := func(_ vouchers.Memory, write bool, _ func(wire.Run) bool) error {
		if write {
			t.Error("it is to be written")
		}
		return nil
	}
	for range 2 {
		if err := r.Allow(page, by, func(int) error { return nil }); err != nil {
			t.Errorf("number %d: %v", page.Number, err)
		}
		page.Number += 4 // as the previous process has told a worker
	}
}

// SPDX-License-Identifier: Apache-2.0

package guestmem_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// newSparse makes a memory that is closed when the test ends.
func newSparse(t *testing.T, regions ...guestmem.Region) *guestmem.Memory {
	t.Helper()
	m, err := guestmem.NewSparse(regions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// sparseOf is a second view of a guest's memory.
func sparseOf(t *testing.T, g *vt.Guest) *guestmem.Memory {
	var regions []guestmem.Region
	for i, s := range g.Spans {
		regions = append(regions, guestmem.Region{GuestAddr: s.Addr, Size: s.Size, FD: g.FDs[i]})
	}
	return newSparse(t, regions...)
}

// TestSparseIsTheSameMemory: random accesses of all kinds see and change what a memory that is
// mapped as a whole has.
func TestSparseIsTheSameMemory(t *testing.T) {
	t.Parallel()
	g := spans(t)
	m := sparseOf(t, g)
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		at, n := page+random.Uint64N(2*page), random.Uint64N(page)
		n = min(n, 3*page-at)
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		var err error
		switch random.IntN(5) {
		case 0:
			err = m.Write(text, at)
		case 1:
			err = writeOnce(m)(text, at)
		case 2:
			g.Write(at, text)
			err = m.Read(text, at)
		case 3:
			g.Write(at, text)
			err = readOnce(m)(text, at)
		case 4:
			var b []byte
			if b, err = m.Slice(at, n); errors.Is(err, guestmem.ErrSplit) {
				continue
			}
			copy(text, b)
		}
		if err != nil || !bytes.Equal(text, g.Read(at, n)) {
			t.Fatalf("%d bytes at %#x: %v", n, at, err)
		}
	}
	for name, move := range map[string]func([]byte, uint64) error{
		"Read": m.Read, "Write": m.Write, "ReadOnce": readOnce(m), "WriteOnce": writeOnce(m),
	} {
		if err := move(make([]byte, 2), 3*page-1); !errors.Is(err, guestmem.ErrRange) {
			t.Errorf("%s into a hole: %v", name, err)
		}
	}
	// A memory that is mapped as a whole has these methods, too.
	got := make([]byte, 2)
	err := errors.Join(writeOnce(g.Mem)([]byte("ab"), page), readOnce(g.Mem)(got, page))
	if err != nil || string(got) != "ab" {
		t.Errorf("%q, %v", got, err)
	}
}

// mapped says how this process has mapped each page of a file: one letter each.
func mapped(t *testing.T, fd int, pages int) string {
	t.Helper()
	var file unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	all := []byte(strings.Repeat("-", pages))
	for line := range strings.Lines(string(text)) {
		var from, to, offset, inode uint64
		var mode, device string
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %d", &from, &to, &mode, &offset, &device,
			&inode); err != nil || inode != file.Ino || !strings.Contains(line, "memfd:guest") {
			continue
		}
		letter := map[string]byte{"r--s": 'r', "rw-s": 'w'}[mode]
		for ; from < to; from, offset = from+page, offset+page {
			all[offset/page] = letter
		}
	}
	return string(all)
}

// readOnce is ReadOnce by no right.
func readOnce(m *guestmem.Memory) func([]byte, uint64) error {
	return func(p []byte, gpa uint64) error {
		return m.ReadOnce(p, guestmem.Extent{Addr: gpa, Bytes: uint64(len(p))})
	}
}

// writeOnce is WriteOnce in the same way.
func writeOnce(m *guestmem.Memory) func([]byte, uint64) error {
	return func(p []byte, gpa uint64) error {
		return m.WriteOnce(p, guestmem.Extent{Addr: gpa, Bytes: uint64(len(p))})
	}
}

// TestNumbered: of a memory whose files others have only numbers are mapped, which the kernel
// doesn't know here. It has what it was told of them, and gives back nothing but addresses.
func TestNumbered(t *testing.T) {
	t.Parallel()
	const number = 1 << 20
	region := guestmem.Region{GuestAddr: 1 << 20, Size: 4 * page, FD: number, FileOffset: 2 * page}
	m, err := guestmem.NewNumbered([]guestmem.Numbered{{region, number, page, true}})
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Numbered(); len(r) != 1 || r[0] != (guestmem.Numbered{region, number, page, true}) {
		t.Errorf("%+v", r)
	}
	runs, err := m.AppendRuns(nil, 1<<20+page, page)
	if err != nil || len(runs) != 1 || runs[0].FD != number || runs[0].FileOffset != 3*page {
		t.Errorf("%+v, %v", runs, err)
	}
	for name, access := range map[string]func([]byte, uint64) error{
		"Read": m.Read, "Write": m.Write, "ReadOnce": readOnce(m), "WriteOnce": writeOnce(m),
	} {
		if err := access(make([]byte, 8), 1<<20); !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, piece := range []uint64{0, page / 2, 3 * page, 1} {
		list := []guestmem.Numbered{{region, number, piece, true}}
		if _, err := guestmem.NewNumbered(list); err == nil {
			t.Errorf("pieces of %d bytes", piece)
		}
	}
}

// TestSparseMapsWhatIsNeeded: nothing else is mapped, and to be written only what is written.
func TestSparseMapsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	fd := vt.MemFD(t, 8*page)
	m := newSparse(t, guestmem.Region{GuestAddr: 1 << 20, Size: 8 * page, FD: fd})
	at := func(n uint64) uint64 { return 1<<20 + n*page }
	slice := func(gpa uint64) func() error {
		return func() error { _, err := m.Slice(gpa, page+1); return err }
	}
	runs := func() error { _, err := m.AppendRuns(nil, at(0), 8*page); return err }
	b := make([]byte, page)
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"nothing", func() error { return nil }, "--------"},
		{"check", func() error { return m.Check(at(0), 8*page) }, "--------"},
		{"runs", runs, "--------"},
		{"an empty read", func() error { return m.Read(nil, at(3)) }, "--------"},
		{"read once", func() error { return readOnce(m)(b, at(1)+1) }, "--------"},
		{"write once", func() error { return writeOnce(m)(b, at(1)+1) }, "--------"},
		{"read", func() error { return m.Read(b[:2], at(2)-1) }, "-rr-----"},
		{"write", func() error { return m.Write(b[:1], at(2)) }, "-rw-----"},
		{"read what is written", func() error { return m.Read(b[:1], at(2)) }, "-rw-----"},
		{"slice", slice(at(5)), "-rw--ww-"},
		{"slice what is read", slice(at(0)), "www--ww-"},
		{"write to a slice", func() error { return m.Write(b[:1], at(5)) }, "www--ww-"},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
		if got := mapped(t, fd, 8); got != step.want {
			t.Errorf("%s: mapped %s, want %s", step.what, got, step.want)
		}
	}
}

// TestSparseIsBounded: what was read and written is unmapped when it is too much; slices stay.
func TestSparseIsBounded(t *testing.T) {
	t.Parallel()
	const pages = 3000
	fd := vt.MemFD(t, pages*page)
	m := newSparse(t, guestmem.Region{Size: pages * page, FD: fd})
	b, err := m.Slice(page, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(pages) {
		if err := errors.Join(m.Write([]byte{byte(i)}, i*page),
			m.Read(make([]byte, 1), i*page)); err != nil {
			t.Fatal(err)
		}
	}
	now := mapped(t, fd, pages)
	if n := strings.Count(now, "w"); n < 2 || n > 1025 || now[1] != 'w' || now[0] != '-' {
		t.Errorf("%d pages are mapped, the first two %s", n, now[:2])
	}
	if b[0] != 1 {
		t.Errorf("the slice has %d", b[0])
	}
	got := make([]byte, 1)
	if err := m.Read(got, 2999*page); err != nil || got[0] != 2999%256 {
		t.Errorf("%d, %v", got[0], err)
	}
}

// TestSparseUnaligned: a region that begins and ends inside pages of its file.
func TestSparseUnaligned(t *testing.T) {
	t.Parallel()
	fd := vt.MemFD(t, 4*page)
	m := newSparse(t, guestmem.Region{GuestAddr: 0x123, Size: 2 * page, FD: fd,
		FileOffset: page + 7})
	text := bytes.Repeat([]byte("abcdefg"), 2*page/7)
	if err := m.Write(text, 0x123); err != nil {
		t.Fatal(err)
	}
	there, got := make([]byte, len(text)), make([]byte, len(text))
	if _, err := unix.Pread(fd, there, page+7); err != nil || !bytes.Equal(there, text) {
		t.Errorf("the file has something else, %v", err)
	}
	if err := readOnce(m)(got[1:], 0x124); err != nil || !bytes.Equal(got[1:], text[1:]) {
		t.Errorf("read once: something else, %v", err)
	}
}

// TestSparseFaults: what vanishes, what isn't mapped and what can't be are errors.
func TestSparseFaults(t *testing.T) {
	fd := vt.MemFD(t, 4*page)
	m := newSparse(t, guestmem.Region{Size: 4 * page, FD: fd})
	runs, err := m.AppendRuns(nil, 0, page)
	if err != nil {
		t.Fatal(err)
	}
	var seen byte
	if err := m.Guard(func() error { seen = runs[0].Bytes[0]; return nil }); !errors.Is(err,
		guestmem.ErrFault) {
		t.Errorf("touching what isn't mapped: %v, %d", err, seen)
	}
	if err := unix.Ftruncate(fd, page); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2*page)
	for name, err := range map[string]error{
		"Read": m.Read(b, 0), "Write": m.Write(b, page), "ReadOnce": readOnce(m)(b, 0),
		"WriteOnce": writeOnce(m)(b, page),
	} {
		if !errors.Is(err, guestmem.ErrFault) {
			t.Errorf("%s of memory that was cut off: %v", name, err)
		}
	}
	if err := m.Read(b[:page], 0); err != nil {
		t.Errorf("what is left can't be read: %v", err)
	}
	only, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(only)
	m = newSparse(t, guestmem.Region{Size: page, FD: only})
	_, err = m.Slice(0, 1)
	for name, err := range map[string]error{
		"Slice": err, "Write": m.Write(b[:1], 0), "WriteOnce": writeOnce(m)(b[:1], 0),
	} {
		if !errors.Is(err, unix.EACCES) {
			t.Errorf("%s of a file that can only be read: %v", name, err)
		}
	}
	if err := m.Read(b[:1], 0); err != nil {
		t.Error(err)
	}
}

// TestSparseMarksWhatIsWritten: a write that was refused marks nothing, not even as lost.
func TestSparseMarksWhatIsWritten(t *testing.T) {
	t.Parallel()
	fd := vt.MemFD(t, page)
	log, err := dirtylog.Open(fd, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m := newSparse(t, guestmem.Region{Size: 8 * page, FD: vt.MemFD(t, 8*page)})
	var marks dirtylog.Switch
	marks.Set(log)
	m.Log(&marks)
	for _, step := range []struct {
		do   func([]byte, uint64) error
		at   uint64
		ok   bool
		want byte
	}{
		{readOnce(m), 0, true, 0}, {m.Read, 0, true, 0},
		{writeOnce(m), 8*page - 1, false, 0}, {m.Write, 8*page - 1, false, 0},
		{writeOnce(m), 2*page - 1, true, 1<<1 | 1<<2},
		{m.Write, 5 * page, true, 1<<1 | 1<<2 | 1<<5},
	} {
		err := step.do(make([]byte, 2), step.at)
		var bitmap [1]byte
		if _, err := unix.Pread(fd, bitmap[:], 0); err != nil {
			t.Fatal(err)
		}
		if (err == nil) != step.ok || bitmap[0] != step.want || log.Lost() {
			t.Errorf("at %#x: %v, marked %b, lost %t", step.at, err, bitmap[0], log.Lost())
		}
	}
}

// TestSparseHugePages: a memory in huge pages is mapped by these, at addresses that fit.
func TestSparseHugePages(t *testing.T) {
	t.Parallel()
	const huge = 2 << 20
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err != nil {
		t.Skip("this kernel has no huge pages: ", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 4*huge); err != nil {
		t.Fatal(err)
	}
	m := newSparse(t, guestmem.Region{GuestAddr: 1 << 30, Size: 3*huge - page, FD: fd,
		FileOffset: page})
	if _, err := m.Slice(1<<30+huge, page); err != nil {
		t.Fatal(err)
	}
	pages := mapped(t, fd, 3*huge/page)
	if n := strings.Count(pages, "w"); n != huge/page || pages[n:2*n] != strings.Repeat("w", n) {
		t.Errorf("%d pages are mapped, want the second %d", n, huge/page)
	}
	// A kernel without free huge pages refuses what was never written.
	text, got := []byte("text"), []byte("none")
	for i, access := range []func([]byte, uint64) error{readOnce(m), m.Write, writeOnce(m)} {
		b := bytes.Clone([][]byte{got, text, text}[i])
		err := access(b, 1<<30)
		if errors.Is(err, guestmem.ErrFault) {
			t.Log("there is no free huge page: nothing is read or written")
			return
		}
		if i == 0 {
			if err != nil || string(b) != "\x00\x00\x00\x00" {
				t.Errorf("%q, %v", b, err)
			}
			continue
		}
		if err := errors.Join(err, readOnce(m)(got, 1<<30)); err != nil || string(got) != "text" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

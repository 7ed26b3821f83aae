// SPDX-License-Identifier: Apache-2.0

package guestmem_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const page = 4096

func TestNew(t *testing.T) {
	t.Parallel()
	fd := vt.MemFD(t, 4*page)
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	type regions = []guestmem.Region
	for _, tt := range []struct {
		name    string
		regions regions
		ok      bool
	}{
		{"none", nil, true},
		{"whole file", regions{{0, 4 * page, fd, 0}}, true},
		{"twice the same bytes", regions{{0, page, fd, 0}, {page, page, fd, 0}}, true},
		{"out of order", regions{{page, page, fd, 0}, {0, page, fd, 0}}, true},
		{"unaligned", regions{{0x123, 100, fd, 0x456}}, true},
		{"up to the end of addresses", regions{{math.MaxUint64 - page + 1, page, fd, 0}}, true},
		{"empty", regions{{0, 0, fd, 0}}, false},
		{"wraps", regions{{math.MaxUint64 - page + 2, page, fd, 0}}, false},
		{"overlap by one byte", regions{{0, page + 1, fd, 0}, {page, page, fd, 0}}, false},
		{"longer than the file", regions{{0, 4*page + 1, fd, 0}}, false},
		{"offset after the file", regions{{0, page, fd, 4 * page}}, false},
		{"offset wraps", regions{{0, page, fd, math.MaxUint64 - 100}}, false},
		{"size of all ones", regions{{0, math.MaxUint64, fd, 0}}, false},
		{"bad descriptor", regions{{0, page, -1, 0}}, false},
		{"directory", regions{{0, page, int(dir.Fd()), 0}}, false},
		{"pipe", regions{{0, page, pipe[0], 0}}, false},
		{"good, then bad", regions{{0, page, fd, 0}, {page, page, -1, 0}}, false},
	} {
		m, err := guestmem.New(tt.regions)
		if (err == nil) != tt.ok {
			t.Errorf("%s: New = %v, want success %v", tt.name, err, tt.ok)
		}
		if err == nil {
			if err := m.Close(); err != nil {
				t.Errorf("%s: Close = %v", tt.name, err)
			}
		}
	}
}

// spans are two regions that touch, a hole, and a third.
func spans(tb testing.TB) *vt.Guest {
	return vt.NewGuest(tb, vt.Span{Addr: 2 * page, Size: page}, vt.Span{Addr: page, Size: page},
		vt.Span{Addr: 5 * page, Size: page})
}

// Every range of up to three pages, around every edge, is judged by counting bytes.
func TestRangesAgainstCounting(t *testing.T) {
	t.Parallel()
	g := spans(t)
	owner := func(a uint64) int {
		for i, s := range g.Spans {
			if a >= s.Addr && a-s.Addr < s.Size {
				return i
			}
		}
		return -1
	}
	for _, edge := range []uint64{0, page, 2 * page, 3 * page, 5 * page, 6 * page} {
		for gpa := max(edge, 2) - 2; gpa < edge+3; gpa++ {
			for _, n := range []uint64{0, 1, 2, 3, page - 1, page, page + 1, 2 * page, 2*page + 1,
				math.MaxUint64} {
				inside, one := true, true
				for a := gpa; a-gpa < min(n, 3*page); a++ {
					inside = inside && owner(a) >= 0
					one = one && owner(a) == owner(gpa)
				}
				inside = inside && n <= 3*page
				if err := g.Mem.Check(gpa, n); (err == nil) != inside ||
					err != nil && !errors.Is(err, guestmem.ErrRange) {
					t.Fatalf("Check(%#x, %d) = %v, want inside %v", gpa, n, err, inside)
				}
				b, err := g.Mem.Slice(gpa, n)
				switch {
				case inside && one:
					if err != nil || uint64(len(b)) != n {
						t.Fatalf("Slice(%#x, %d) = %d bytes, %v", gpa, n, len(b), err)
					}
				case inside:
					if !errors.Is(err, guestmem.ErrSplit) {
						t.Fatalf("Slice(%#x, %d) = %v, want ErrSplit", gpa, n, err)
					}
				default:
					if !errors.Is(err, guestmem.ErrRange) {
						t.Fatalf("Slice(%#x, %d) = %v, want ErrRange", gpa, n, err)
					}
				}
			}
		}
	}
}

func TestReadWriteAcrossRegions(t *testing.T) {
	t.Parallel()
	g := spans(t)
	text := bytes.Repeat([]byte("0123456789"), 600)
	if err := g.Mem.Write(text, page+100); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if err := g.Mem.Read(got, page+100); err != nil || !bytes.Equal(got, text) {
		t.Errorf("Read = %v, equal %v", err, bytes.Equal(got, text))
	}
	// The bytes are where the files are said to have them.
	runs, err := g.Mem.AppendRuns(nil, page+100, uint64(len(text)))
	if err != nil || len(runs) != 2 {
		t.Fatalf("AppendRuns = %d runs, %v", len(runs), err)
	}
	var joined []byte
	for _, r := range runs {
		b := make([]byte, len(r.Bytes))
		if _, err := unix.Pread(r.FD, b, int64(r.FileOffset)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, r.Bytes) || guestmem.Addr(r.Bytes) == 0 || r.ShrinkSealed {
			t.Errorf("run %+v differs from its file", r.GuestAddr)
		}
		joined = append(joined, b...)
	}
	if !bytes.Equal(joined, text) {
		t.Error("the runs aren't the range")
	}
	// Into the hole: nothing is copied.
	if err := g.Mem.Write([]byte("xy"), 3*page-1); !errors.Is(err, guestmem.ErrRange) {
		t.Errorf("Write into a hole = %v", err)
	}
	if err := g.Mem.Read(got, 3*page-1); !errors.Is(err, guestmem.ErrRange) {
		t.Errorf("Read from a hole = %v", err)
	}
	if runs, err := g.Mem.AppendRuns(nil, 0, 1); err == nil || runs != nil {
		t.Errorf("AppendRuns of a hole = %v, %v", runs, err)
	}
	if g.Read(3*page-1, 1)[0] != 0 {
		t.Error("a refused Write wrote")
	}
}

func TestRegionsAreSorted(t *testing.T) {
	t.Parallel()
	g := spans(t)
	r := g.Mem.Regions()
	if len(r) != 3 || r[0].GuestAddr != page || r[1].GuestAddr != 2*page ||
		r[2].GuestAddr != 5*page {
		t.Errorf("regions %+v", r)
	}
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: 2 * page})
	g.Write(page, []byte("gone"))
	if err := unix.Ftruncate(g.FDs[0], page); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 8)
	if err := g.Mem.Read(p, page); !errors.Is(err, guestmem.ErrFault) {
		t.Errorf("Read = %v, want ErrFault", err)
	}
	if err := g.Mem.Write(p, page-4); !errors.Is(err, guestmem.ErrFault) {
		t.Errorf("Write = %v, want ErrFault", err)
	}
	b, err := g.Mem.Slice(page, 8)
	if err != nil {
		t.Fatal(err)
	}
	err = g.Mem.Guard(func() error {
		if inner := g.Mem.Guard(func() error { b[0] = 1; return nil }); !errors.Is(inner,
			guestmem.ErrFault) {
			t.Errorf("inner guard = %v", inner)
		}
		b[0] = 1 // the outer guard still holds
		return nil
	})
	if !errors.Is(err, guestmem.ErrFault) {
		t.Errorf("outer guard = %v", err)
	}
	if err := g.Mem.Read(p, 0); err != nil {
		t.Errorf("Read of what is left = %v", err)
	}
	if err := unix.Ftruncate(g.FDs[0], 2*page); err != nil {
		t.Fatal(err)
	}
	if err := g.Mem.Read(p, page); err != nil {
		t.Errorf("Read after the file grew again = %v", err)
	}
}

// A guard is for faults on guest memory: other panics go through it.
func TestGuardLetsOtherPanicsPass(t *testing.T) {
	t.Parallel()
	g := spans(t)
	for name, fn := range map[string]func() error{
		"panic":  func() error { panic("mine") },
		"nil":    func() error { var p *int; *p = 1; return nil },
		"bounds": func() error { _ = make([]int, 1)[len(g.FDs)]; return nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the guard swallowed the panic", name)
				}
			}()
			_ = g.Mem.Guard(fn)
		}()
	}
	sentinel := errors.New("sentinel")
	if err := g.Mem.Guard(func() error { return sentinel }); err != sentinel {
		t.Errorf("Guard = %v", err)
	}
}

func TestHoldKeepsTheMapping(t *testing.T) {
	t.Parallel()
	m, err := guestmem.New([]guestmem.Region{{GuestAddr: 0, Size: page, FD: vt.MemFD(t, page)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Hold(); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); !errors.Is(err, guestmem.ErrBusy) {
		t.Errorf("Close while held = %v", err)
	}
	if err := m.Read(make([]byte, 1), 0); err != nil {
		t.Errorf("Read while held = %v", err)
	}
	m.Release()
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := m.Hold(); !errors.Is(err, guestmem.ErrClosed) {
		t.Errorf("Hold after Close = %v", err)
	}
	if err := m.Read(make([]byte, 1), 0); !errors.Is(err, guestmem.ErrRange) {
		t.Errorf("Read after Close = %v", err)
	}
}

func TestShrinkSealed(t *testing.T) {
	t.Parallel()
	fd := vt.MemFD(t, page)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		fds  []int
		want bool
	}{{nil, false}, {[]int{fd}, true}, {[]int{fd, vt.MemFD(t, page)}, false}} {
		var regions []guestmem.Region
		for i, fd := range tt.fds {
			regions = append(regions,
				guestmem.Region{GuestAddr: uint64(i) * page, Size: page, FD: fd})
		}
		m, err := guestmem.New(regions)
		if err != nil || m.ShrinkSealed() != tt.want {
			t.Errorf("%d regions: ShrinkSealed = %v, %v, want %v", len(regions), m.ShrinkSealed(),
				err, tt.want)
		}
		_ = m.Close()
	}
}

func TestAccessDoesNotAllocate(t *testing.T) {
	g := spans(t)
	p, runs := make([]byte, 64), make([]guestmem.Run, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		_ = g.Mem.Read(p, 2*page-32)
		_ = g.Mem.Write(p, 2*page-32)
		_, _ = g.Mem.AppendRuns(runs, 2*page-32, 64)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// SPDX-License-Identifier: Apache-2.0

package dirtylog

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func memFD(tb testing.TB, size int64) int {
	tb.Helper()
	fd, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Ftruncate(fd, size); err != nil {
		tb.Fatal(err)
	}
	return fd
}

func seal(tb testing.TB, fd int) {
	tb.Helper()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, fd int, offset, size uint64) *Log {
	tb.Helper()
	l, err := Open(fd, offset, size)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// contents reads the file as the front end does.
func contents(tb testing.TB, fd int, offset, size uint64) []byte {
	tb.Helper()
	b := make([]byte, size)
	if n, err := unix.Pread(fd, b, int64(offset)); err != nil || n != len(b) {
		tb.Fatalf("read %d of the log's %d bytes: %v", n, size, err)
	}
	return b
}

func TestOpen(t *testing.T) {
	t.Parallel()
	fd := memFD(t, 16384)
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()
	for _, tt := range []struct {
		name         string
		fd           int
		offset, size uint64
		ok           bool
	}{
		{"all", fd, 0, 16384, true},
		{"from a page on", fd, 4096, 12288, true},
		{"no whole words", fd, 0, 13, true},
		{"empty", fd, 0, 0, false},
		{"past the end", fd, 8192, 8193, false},
		{"offset past the end", fd, 16384, 1, false},
		{"offset inside a page", fd, 8, 8, false},
		{"offset wraps", fd, math.MaxUint64 - 4095, 4096, false},
		{"offset of 2^63", fd, 1 << 63, 4096, false},
		{"size of all ones", fd, 0, math.MaxUint64, false},
		{"more than any processor addresses", fd, 0, maxSize + 1, false},
		{"a pipe", pipe[0], 0, 8, false},
		{"no file", -1, 0, 8, false},
	} {
		l, err := Open(tt.fd, tt.offset, tt.size)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrLog) {
			t.Errorf("%s: %v, want success %v", tt.name, err, tt.ok)
		}
		if l != nil {
			if err := errors.Join(l.Close(), l.Close()); err != nil {
				t.Errorf("%s: close: %v", tt.name, err)
			}
			l.Mark(0, 1) // a writer that is late
		}
	}
}

// TestBits: the bytes that the specification wants.
func TestBits(t *testing.T) {
	t.Parallel()
	fd := memFD(t, 8192)
	l := open(t, fd, 4096, 32)
	l.Mark(0, 1)
	l.Mark(3*PageSize+4095, 2)
	l.Mark(62*PageSize, 4*PageSize)
	l.Mark(255*PageSize, PageSize)
	l.Mark(7, 0)
	want := make([]byte, 32)
	want[0], want[7], want[8], want[31] = 0b11001, 0b11000000, 0b11, 0b10000000
	if got := contents(t, fd, 4096, 32); !bytes.Equal(got, want) {
		t.Errorf("log is\n% x, want\n% x", got, want)
	}
	if l.Lost() {
		t.Error("the log is lost")
	}
}

// TestOutside: what has no bit makes the log lost, and is not written anywhere.
func TestOutside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		gpa, n  uint64
		covered bool
		bits    byte // of the last byte
	}{
		{"last page", 103 * PageSize, PageSize, true, 0x80},
		{"last byte", 104*PageSize - 1, 1, true, 0x80},
		{"nothing at the end of addresses", math.MaxUint64, 0, true, 0},
		{"one too many", 104*PageSize - 1, 2, false, 0x80},
		{"behind", 104 * PageSize, 1, false, 0},
		{"wraps", math.MaxUint64, 2, false, 0},
		{"wraps from inside", 103 * PageSize, math.MaxUint64, false, 0x80},
		{"last of all", math.MaxUint64, 1, false, 0},
	} {
		fd := memFD(t, 4096)
		l := open(t, fd, 0, 13)
		if got := l.Covers(tt.gpa, tt.n); got != tt.covered {
			t.Errorf("%s: covered %v", tt.name, got)
		}
		l.Mark(tt.gpa, tt.n)
		got := contents(t, fd, 0, 4096)
		rest := bytes.Equal(got[13:], make([]byte, 4096-13))
		if l.Lost() == tt.covered || got[12] != tt.bits || !rest {
			t.Errorf("%s: lost %v, % x", tt.name, l.Lost(), got[:32])
		}
	}
}

// TestCutShort: a front end that takes the file away loses its log, and nothing else.
func TestCutShort(t *testing.T) {
	t.Parallel()
	fd := memFD(t, 8192)
	l := open(t, fd, 0, 8192)
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	l.Mark(0, PageSize)
	if l.Lost() {
		t.Error("lost while the bit is there")
	}
	l.Mark(5000*8*PageSize, PageSize)
	if !l.Lost() {
		t.Error("a bit that is nowhere was set")
	}
	sealed := memFD(t, 4096)
	seal(t, sealed)
	if l := open(t, sealed, 0, 4096); !l.sealed {
		t.Error("the seal was not seen")
	}
}

// oracle marks page by page, byte by byte.
func oracle(bitmap []byte, gpa, n uint64) {
	for i := uint64(0); i < n; i++ {
		page := (gpa + i) / 4096
		bitmap[page/8] |= 1 << (page % 8)
	}
}

func TestAgainstOracle(t *testing.T) {
	t.Parallel()
	const size = 96
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		fd, want := memFD(t, size), make([]byte, size)
		l, err := Open(fd, 0, size)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			gpa := r.Uint64N(size * 8 * PageSize)
			n := min(r.Uint64N(1<<r.Uint64N(18)+1), size*8*PageSize-gpa)
			l.Mark(gpa, n)
			oracle(want, gpa, n)
		}
		if got := contents(t, fd, 0, size); !bytes.Equal(got, want) || l.Lost() {
			t.Fatalf("log is\n% x, want\n% x", got, want)
		}
		_ = l.Close()
	}
}

func FuzzMark(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint16(8))
	f.Add(uint64(4095), uint64(2), uint16(1))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), uint16(100))
	f.Add(uint64(63*4096), uint64(4097), uint16(9))
	f.Fuzz(func(t *testing.T, gpa, n uint64, size uint16) {
		fd := memFD(t, 1<<16)
		l, err := Open(fd, 0, uint64(size))
		if err != nil {
			if size != 0 {
				t.Fatal(err)
			}
			return
		}
		defer l.Close()
		l.Mark(gpa, n)
		if l.Lost() == l.Covers(gpa, n) {
			t.Errorf("lost %v, covered %v", l.Lost(), l.Covers(gpa, n))
		}
		got := contents(t, fd, 0, 1<<16)
		for page := range uint64(1 << 16 * 8) {
			first, last := gpa/4096, (gpa+n-1)/4096
			if gpa+n-1 < gpa {
				last = math.MaxUint64
			}
			want := n != 0 && page >= first && page <= last && page < uint64(size)*8
			if is := got[page/8]>>(page%8)&1 != 0; is != want {
				t.Fatalf("page %d: %v, want %v", page, is, want)
			}
		}
	})
}

// TestRace: writers, a switch that is turned, and a front end that fetches and clears. Each write
// that ended while the log was on is seen.
func TestRace(t *testing.T) {
	t.Parallel()
	const pages, rounds = 512, 200
	fd := memFD(t, 4096)
	seal(t, fd)
	front, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(front) }()
	var s Switch
	s.Set(open(t, fd, 0, pages/8))
	var all sync.WaitGroup
	done := make(chan struct{})
	seen := make([]uint64, pages/wordBits)
	for w := range uint64(4) {
		all.Go(func() {
			for range rounds {
				for p := w; p < pages; p += 4 {
					s.Mark(p*PageSize, 1)
				}
				runtime.Gosched()
			}
		})
	}
	go func() {
		all.Wait()
		close(done)
	}()
	fetch := func() {
		for i := range seen {
			seen[i] |= swap(front, uint64(i)*8)
		}
	}
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		fetch()
	}
	for i, w := range seen {
		if w != ^uint64(0) {
			t.Errorf("word %d is %#x", i, w)
		}
	}
	// A log that is closed while writers have it.
	for w := range uint64(4) {
		all.Go(func() {
			for p := range uint64(20000) {
				s.Mark((p+w)%pages*PageSize, PageSize)
			}
		})
	}
	for range 50 {
		l, err := Open(fd, 0, pages/8)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Set(l).Close()
	}
	all.Wait()
	_ = s.Log().Close()
}

func TestRanges(t *testing.T) {
	t.Parallel()
	fd := memFD(t, 4096)
	var s Switch
	var r Ranges
	none := r.Add([]Range{{0, PageSize}})
	r.Drop(none, &s) // nobody logs
	first := r.Add([]Range{{0, PageSize}, {8 * PageSize, 8 * PageSize}})
	r.Add([]Range{{17 * PageSize, 1}})
	l := open(t, fd, 0, 4)
	s.Set(l)
	r.MarkAll(s.Log())
	if got := contents(t, fd, 0, 4); !bytes.Equal(got, []byte{1, 0xff, 2, 0}) {
		t.Errorf("log is % x", got)
	}
	clear(l.mem)
	r.Drop(first, &s)
	if got := contents(t, fd, 0, 4); !bytes.Equal(got, []byte{1, 0xff, 0, 0}) {
		t.Errorf("log is % x after the last mark", got)
	}
	clear(l.mem)
	r.MarkAll(l)
	if got := contents(t, fd, 0, 4); !bytes.Equal(got, []byte{0, 0, 2, 0}) {
		t.Errorf("log is % x, where one range is left", got)
	}
}

func BenchmarkMark(b *testing.B) {
	var s Switch
	b.Run("off", func(b *testing.B) {
		for i := range uint64(b.N) {
			s.Mark(i, 64)
		}
	})
	fd := memFD(b, 1<<16)
	seal(b, fd)
	s.Set(open(b, fd, 0, 1<<16))
	b.Run("on", func(b *testing.B) {
		for i := range uint64(b.N) {
			s.Mark(i%(1<<30), 64)
		}
	})
}

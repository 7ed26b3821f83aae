// SPDX-License-Identifier: Apache-2.0

package dirtylog

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// PageSize is how many bytes of a guest each bit stands for.
const PageSize = 1 << pageShift

const (
	pageShift = 12
	wordBits  = 64

	// maxSize bounds a log: bits for all addresses of 52 bits, which is what processors have.
	maxSize = 1 << (52 - pageShift - 3)
)

// ErrLog marks a log that can't be used.
var ErrLog = errors.New("dirty log")

// Log is a bitmap that is mapped.
type Log struct {
	fd           int
	offset, size uint64
	pages        uint64 // that there are bits for
	sealed       bool   // the file can't be cut short
	lost         atomic.Bool

	mu  sync.RWMutex // held for reading while bits are set
	mem []byte       // nil after Close; guarded by mu
}

// Open maps size bytes of a file from offset on, which must be whole pages. The descriptor is
// duplicated, the caller keeps its own.
func Open(fd int, offset, size uint64) (*Log, error) {
	switch {
	case size == 0 || size > maxSize:
		return nil, fmt.Errorf("%w of %d bytes", ErrLog, size)
	case offset%uint64(unix.Getpagesize()) != 0 || offset > math.MaxInt64-maxSize:
		return nil, fmt.Errorf("%w: offset %#x", ErrLog, offset)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("%w: stat: %w", ErrLog, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%w: a file of mode %#o is no memory", ErrLog, st.Mode)
	}
	if uint64(st.Size) < offset+size {
		return nil, fmt.Errorf("%w: the file has %d bytes, the log ends at %d",
			ErrLog, st.Size, offset+size)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("%w: duplicate descriptor: %w", ErrLog, err)
	}
	// Whole words: the rest of the last one is in the same page, of which mmap maps all.
	words := (size + 7) / 8
	mem, err := unix.Mmap(own, int64(offset), int(words*8),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(own)
		return nil, fmt.Errorf("%w: mmap: %w", ErrLog, err)
	}
	seals, err := unix.FcntlInt(uintptr(own), unix.F_GET_SEALS, 0)
	return &Log{
		fd: own, offset: offset, size: size, pages: size * 8, mem: mem,
		sealed: err == nil && seals&unix.F_SEAL_SHRINK != 0,
	}, nil
}

// FD is the file of the log, for Open in another process.
func (l *Log) FD() int { return l.fd }

// Offset is where in the file the log begins.
func (l *Log) Offset() uint64 { return l.offset }

// Size is the length of the log in bytes.
func (l *Log) Size() uint64 { return l.size }

// Covers reports whether there are bits for a range of guest-physical addresses.
func (l *Log) Covers(gpa, n uint64) bool {
	return n == 0 || n-1 <= math.MaxUint64-gpa && (gpa+(n-1))>>pageShift < l.pages
}

// Lost reports whether a page could not be marked. It stays so.
func (l *Log) Lost() bool { return l.lost.Load() }

// Close unmaps the log. Later marks do nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mem == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(l.mem), unix.Close(l.fd))
	l.mem = nil
	return err
}

// Mark sets the bits of all pages that a range of guest-physical addresses touches.
func (l *Log) Mark(gpa, n uint64) {
	if n == 0 {
		return
	}
	first, last := gpa>>pageShift, (gpa+(n-1))>>pageShift
	if gpa+(n-1) < gpa || last >= l.pages {
		l.lost.Store(true)
		if first >= l.pages {
			return
		}
		last = l.pages - 1
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.mem == nil {
		return
	}
	if !l.sealed {
		defer l.recover(debug.SetPanicOnFault(true))
	}
	l.set(first, last)
}

// recover turns a fault, of a file that was cut short, into Lost. It must be deferred directly.
func (l *Log) recover(old bool) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	fault, ok := r.(interface{ Addr() uintptr })
	if base := addr(l.mem); !ok || fault.Addr() < base || fault.Addr()-base >= uintptr(len(l.mem)) {
		panic(r)
	}
	l.lost.Store(true)
}

// set sets the bits from first to last, a word at a time.
func (l *Log) set(first, last uint64) {
	for at := first; at <= last; {
		bit := at % wordBits
		n := min(wordBits-bit, last-at+1)
		or(l.mem, at/wordBits*8, (^uint64(0)>>(wordBits-n))<<bit)
		at += n
	}
}

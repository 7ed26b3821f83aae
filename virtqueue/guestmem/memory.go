// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

var (
	// ErrRange is returned for a guest-physical range that isn't wholly inside the memory.
	ErrRange = errors.New("outside guest memory")

	// ErrSplit is returned by Slice for a range that is inside guest memory but crosses from one
	// region to another, so that no single slice can show it.
	ErrSplit = errors.New("range crosses guest memory regions")

	// ErrBusy is returned by Close while the memory is held.
	ErrBusy = errors.New("guest memory is in use")

	// ErrClosed is returned by Hold after Close.
	ErrClosed = errors.New("guest memory is closed")
)

// Region is one piece of guest memory, as the front end describes it.
type Region struct {
	GuestAddr  uint64 // guest-physical address of the first byte
	Size       uint64 // length in bytes
	FD         int    // file that holds the bytes; New duplicates it
	FileOffset uint64 // where in the file the first byte is
}

// mapping is a region that has been mapped, or of a sparse memory: whose addresses are taken.
type mapping struct {
	start      uint64 // first guest-physical address
	last       uint64 // last guest-physical address; inclusive, so that 2^64-1 is no special case
	host       []byte // exactly the region
	whole      []byte // what mmap returned, with the slack that alignment needs
	fileOffset uint64
	fileFacts

	slack  uint64              // bytes before the region in its first piece
	pieces map[uint64]shownFor // of a sparse memory: those that are mapped
}

// Memory is a set of mapped regions, sorted by guest-physical address.
type Memory struct {
	maps   []mapping
	dirty  *dirtylog.Switch
	rights Rights

	sparse  bool
	showing sync.Mutex // of a sparse memory: guards all pieces, and is held while they are touched
	shown   int        // pieces that may be hidden again; guarded by showing

	mu     sync.Mutex
	holds  int  // guarded by mu
	closed bool // guarded by mu
}

// New checks and maps the regions. The descriptors are duplicated, the caller keeps its own.
func New(regions []Region) (*Memory, error) {
	return newMemory(regions, unix.PROT_READ|unix.PROT_WRITE, nil)
}

// newMemory does so, or for PROT_NONE only takes addresses. The files are asked what they
// are, unless it is known.
func newMemory(
	regions []Region, prot int, known func(region int) (fileFacts, error),
) (*Memory, error) {
	if err := checkRegions(regions); err != nil {
		return nil, fmt.Errorf("map guest memory: %w", err)
	}
	if known == nil {
		known = func(i int) (fileFacts, error) { return fileFactsOf(regions[i]) }
	}
	m := &Memory{dirty: &dirtylog.Switch{}, sparse: prot == unix.PROT_NONE}
	for i, r := range regions {
		f, err := known(i)
		var mp mapping
		if err == nil {
			mp, err = mapRegion(r, f, prot)
		}
		if err != nil {
			m.unmap()
			return nil, fmt.Errorf("map guest memory: region %d: %w", i, err)
		}
		m.maps = append(m.maps, mp)
	}
	sort.Slice(m.maps, func(i, j int) bool { return m.maps[i].start < m.maps[j].start })
	return m, nil
}

// checkRegions refuses empty, wrapping and overlapping regions.
func checkRegions(regions []Region) error {
	sorted := slices.Clone(regions)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].GuestAddr < sorted[j].GuestAddr })
	for i, r := range sorted {
		switch {
		case r.Size == 0:
			return fmt.Errorf("region at %#x is empty", r.GuestAddr)
		case r.GuestAddr+(r.Size-1) < r.GuestAddr:
			return fmt.Errorf("region at %#x wraps around the address space", r.GuestAddr)
		case r.FileOffset > math.MaxInt64 || r.Size > math.MaxInt64-r.FileOffset:
			return fmt.Errorf("region at %#x: file offset out of range", r.GuestAddr)
		}
		if i > 0 && sorted[i-1].GuestAddr+(sorted[i-1].Size-1) >= r.GuestAddr {
			return fmt.Errorf("regions at %#x and %#x overlap", sorted[i-1].GuestAddr, r.GuestAddr)
		}
	}
	return nil
}

// fileFacts are what is to be known of a region's file.
type fileFacts struct {
	fd           int
	readFD       int    // where it is mapped to be read only
	owned        bool   // fd is a descriptor for the mapping to own, and readFD the same
	piece        uint64 // that mmap and munmap want: the page size, or the size of a huge page
	shrinkSealed bool
}

// fileFactsOf asks a region's file.
func fileFactsOf(r Region) (fileFacts, error) {
	align, err := fileAlign(r)
	if err != nil {
		return fileFacts{}, err
	}
	fd, err := unix.FcntlInt(uintptr(r.FD), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fileFacts{}, fmt.Errorf("duplicate descriptor: %w", err)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return fileFacts{fd, fd, true, align, err == nil && seals&unix.F_SEAL_SHRINK != 0}, nil
}

// close gives the descriptor back, if it is one.
func (f *fileFacts) close() error {
	if !f.owned {
		return nil
	}
	return unix.Close(f.fd)
}

// mapRegion maps one region that checkRegions has passed.
func mapRegion(r Region, f fileFacts, prot int) (m mapping, err error) {
	defer func() {
		if err != nil {
			_ = f.close()
		}
	}()
	slack := r.FileOffset % f.piece
	length := (slack + r.Size + f.piece - 1) / f.piece * f.piece
	if length > math.MaxInt {
		return mapping{}, fmt.Errorf("region of %d bytes is too large", r.Size)
	}
	var whole []byte
	begin := uint64(0) // of the first piece
	if prot == unix.PROT_NONE {
		whole, begin, err = reserve(length, f.piece)
	} else {
		whole, err = unix.Mmap(f.fd, int64(r.FileOffset-slack), int(length), prot,
			unix.MAP_SHARED|unix.MAP_NORESERVE)
	}
	if err != nil {
		return mapping{}, fmt.Errorf("mmap: %w", err)
	}
	begin += slack
	return mapping{
		start:      r.GuestAddr,
		last:       r.GuestAddr + (r.Size - 1),
		host:       whole[begin : begin+r.Size : begin+r.Size],
		whole:      whole,
		fileFacts:  f,
		fileOffset: r.FileOffset,
		slack:      slack,
		pieces:     map[uint64]shownFor{},
	}, nil
}

// fileAlign checks that the file holds the region, and returns the alignment that mmap and munmap
// want for it: the page size, or the size of a huge page.
func fileAlign(r Region) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(r.FD, &st); err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, fmt.Errorf("file mode %#o is not that of a memory file", st.Mode)
	}
	if st.Size < 0 || uint64(st.Size) < r.FileOffset+r.Size {
		return 0, fmt.Errorf("file of %d bytes is shorter than the region's end at %d",
			st.Size, r.FileOffset+r.Size)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(r.FD, &fs); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	if fs.Type == unix.HUGETLBFS_MAGIC && fs.Bsize > 0 {
		return uint64(fs.Bsize), nil
	}
	return uint64(unix.Getpagesize()), nil
}

// Log makes the memory mark its writes in the log that s has, rather than in a switch of its own.
// It is called before the memory is used.
func (m *Memory) Log(s *dirtylog.Switch) { m.dirty = s }

// Dirty is where writes are marked. Whoever writes through a Slice or a Run marks it there.
func (m *Memory) Dirty() *dirtylog.Switch { return m.dirty }

// Hold keeps the memory mapped until Release.
func (m *Memory) Hold() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.holds++
	return nil
}

// Release ends a Hold.
func (m *Memory) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds--
}

// Close unmaps the memory. While it is held it does nothing and returns ErrBusy. No slice or
// address of this memory may be used after Close.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holds > 0 {
		return fmt.Errorf("close: %w by %d", ErrBusy, m.holds)
	}
	if m.closed {
		return nil
	}
	m.closed = true
	return m.unmap()
}

// unmap gives back every mapping and descriptor.
func (m *Memory) unmap() error {
	var errs []error
	for _, mp := range m.maps {
		errs = append(errs, unix.Munmap(mp.whole), mp.close())
	}
	m.maps = nil
	return errors.Join(errs...)
}

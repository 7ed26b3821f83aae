// SPDX-License-Identifier: Apache-2.0

package space

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// Space is the address space that kernels see. It is the backing of the heap and simt's Memory.
type Space struct {
	window *window // where device memory is
	// Heap gives out the window. It is the device's goroutine's.
	Heap  *devmem.Heap
	table atomic.Pointer[table] // swapped as a whole
	// file, unless -1, is what the next segment is mapped from instead of the window's own.
	file int
	// start is where in file the segment begins.
	start int64
	// staged are the segments that have a file of their own.
	staged map[uint64]bool
}

// Open maps a window of device memory at exactly base, with a heap of which so much may be used.
func Open(base, size, limit uint64) (*Space, error) {
	w, err := openWindow(base, size)
	if err != nil {
		return nil, err
	}
	s := &Space{window: w, file: -1, staged: make(map[uint64]bool)}
	s.table.Store(&table{})
	if s.Heap, err = devmem.New(base, size, limit, s); err != nil {
		w.close()
		return nil, err
	}
	return s, nil
}

// Map implements devmem.Backing.
func (s *Space) Map(addr, bytes uint64) error {
	if s.file >= 0 {
		if err := s.window.mmap(s.file, s.start, addr, bytes,
			windowFlags|unix.MAP_FIXED); err != nil {
			return err
		}
		s.staged[addr] = true
	}
	s.table.Store(s.table.Load().with(region{addr, addr + bytes, true}))
	return nil
}

// Unmap implements devmem.Backing.
func (s *Space) Unmap(addr, bytes uint64) {
	s.table.Store(s.table.Load().without(addr))
	if s.staged[addr] {
		delete(s.staged, addr)
		// stays the other file's when the system has no memory for it
		_ = s.window.restore(addr, bytes)
	}
	_ = s.window.discard(addr, bytes) // the memory is used again otherwise
}

// Lookup implements simt.Memory.
func (s *Space) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	r, ok := s.table.Load().lookup(addr)
	return r.base, r.end, r.writable, ok
}

// InWindow tells whether addr belongs to device memory, allocated or not.
func (s *Space) InWindow(addr uint64) bool { return addr-s.window.base < s.window.size }

// Close unmaps the window. Nothing may use it any more.
func (s *Space) Close() { s.window.close() }

// Covers tells whether the whole range may be read, or written, now.
func (s *Space) Covers(addr, bytes uint64, write bool) bool {
	return s.table.Load().covers(addr, bytes, write)
}

// Admit adds a range to what may be reached. It is false if part of it is in there already.
func (s *Space) Admit(addr, bytes uint64, writable bool) bool {
	t := s.table.Load()
	if t.overlaps(addr, addr+bytes) {
		return false
	}
	s.table.Store(t.with(region{addr, addr + bytes, writable}))
	return true
}

// Replace has the range, which may be there already, be reached in that way from now on.
func (s *Space) Replace(addr, bytes uint64, writable bool) {
	s.table.Store(s.table.Load().without(addr).with(region{addr, addr + bytes, writable}))
}

// Withdraw takes away the range at addr. Work that comes too late finds no region.
func (s *Space) Withdraw(addr uint64) { s.table.Store(s.table.Load().without(addr)) }

// WithFile calls alloc, which takes a segment of the heap: it is mapped from a file, from start on,
// instead of the window's own.
func (s *Space) WithFile(file int, start int64, alloc func()) {
	s.file, s.start = file, start
	alloc()
	s.file, s.start = -1, 0
}

// Owns tells whether a segment is the window's own memory, and not a file's.
func (s *Space) Owns(segment uint64) bool { return !s.staged[segment] }

// Duplicate returns a descriptor of the window's file.
func (s *Space) Duplicate() (int, error) {
	return unix.FcntlInt(uintptr(s.window.file), unix.F_DUPFD_CLOEXEC, 0)
}

// Base and Size are those of the window.
func (s *Space) Base() uint64 { return s.window.base }

// Size is that of the window.
func (s *Space) Size() uint64 { return s.window.size }

// MapFile maps the whole of a file of that size at reserved addresses.
func (s *Space) MapFile(file int, addr, bytes uint64) error {
	return s.window.mapFile(file, addr, bytes, windowFlags|unix.MAP_FIXED)
}

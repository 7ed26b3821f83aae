// SPDX-License-Identifier: Apache-2.0

package space

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// Space is the addresses of all GPUs. It is the backing of the heaps.
type Space struct {
	base, size uint64                // of all windows
	windows    []*window             // where device memory is, one for each GPU
	heaps      []*devmem.Heap        // give out the windows; the device's goroutine's
	reach      []gpus                // whose kernels reach each window
	table      atomic.Pointer[table] // swapped as a whole
	// file, unless -1, is what the next segment is mapped from instead of the window's own.
	file int
	// start is where in file the segment begins.
	start int64
	// staged are the segments that have a file of their own.
	staged map[uint64]bool
	// kept are the files of segments that have the same file each time that they are mapped.
	kept map[uint64]int
}

// GPU says whose window it is.
type GPU struct {
	Number int    // among the VM's GPUs, whichever of them the process sees
	Limit  uint64 // of what is used of the window, in bytes
}

// Open maps a window of device memory for each GPU, one behind the other from exactly base on, with
// a heap.
func Open(base, size uint64, gpus ...GPU) (*Space, error) {
	s := &Space{base: base, file: -1, staged: make(map[uint64]bool), kept: make(map[uint64]int)}
	s.table.Store(&table{})
	for _, gpu := range gpus {
		if err := s.openGPU(base+s.size, size, gpu); err != nil {
			s.Close()
			return nil, err
		}
		s.size += size
	}
	return s, nil
}

// openGPU maps the window of one more GPU.
func (s *Space) openGPU(base, size uint64, gpu GPU) error {
	w, err := openWindow(base, size, gpu.Number)
	if err != nil {
		return err
	}
	s.windows, s.reach = append(s.windows, w), append(s.reach, only(len(s.reach)))
	heap, err := devmem.New(base, size, gpu.Limit, s)
	s.heaps = append(s.heaps, heap)
	return err
}

// Heap gives out the window of a GPU.
func (s *Space) Heap(gpu int) *devmem.Heap { return s.heaps[gpu] }

// Heaps are those of all GPUs.
func (s *Space) Heaps() []*devmem.Heap { return s.heaps }

// HeapOf is the heap of the window that an address is in; for an address in none it is any heap.
func (s *Space) HeapOf(addr uint64) *devmem.Heap { return s.heaps[s.gpuOf(addr)] }

// gpuOf is the GPU in whose window an address is, or 0.
func (s *Space) gpuOf(addr uint64) int {
	if !s.InWindow(addr) {
		return 0
	}
	return int((addr - s.base) / s.windows[0].size)
}

// Map implements devmem.Backing.
func (s *Space) Map(addr, bytes uint64) error {
	file, start := s.file, s.start
	if kept, ok := s.kept[addr]; ok {
		file, start = kept, 0
	}
	if file >= 0 {
		if err := s.windows[0].mmap(file, start, addr, bytes,
			windowFlags|unix.MAP_FIXED); err != nil {
			return err
		}
		s.staged[addr] = true
	}
	reach := s.reach[s.gpuOf(addr)]
	s.table.Store(s.table.Load().with(region{addr, addr + bytes, reach, reach}))
	return nil
}

// Unmap implements devmem.Backing.
func (s *Space) Unmap(addr, bytes uint64) {
	s.table.Store(s.table.Load().without(addr))
	if s.staged[addr] {
		delete(s.staged, addr)
		// the range stays the other file's if the system has no memory for it
		_ = s.windows[s.gpuOf(addr)].restore(addr, bytes)
	}
	_ = s.windows[s.gpuOf(addr)].discard(addr, bytes) // the memory is used again otherwise
}

// InWindow tells whether addr belongs to device memory, allocated or not.
func (s *Space) InWindow(addr uint64) bool { return addr-s.base < s.size }

// Close unmaps the windows. Nothing may use them any more.
func (s *Space) Close() {
	for _, w := range s.windows {
		w.close()
	}
}

// Covers tells whether the whole range may be read, or written, now.
func (s *Space) Covers(addr, bytes uint64, write bool) bool {
	return s.table.Load().covers(addr, bytes, write, everyone)
}

// Admit adds a range to what may be reached. It returns false if part of it is there already.
func (s *Space) Admit(addr, bytes uint64, writable bool) bool {
	t := s.table.Load()
	if t.overlaps(addr, addr+bytes) {
		return false
	}
	r := region{base: addr, end: addr + bytes, read: everyone}
	if writable {
		r.write = everyone
	}
	s.table.Store(t.with(r))
	return true
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

// KeepFile says that a segment is mapped from the same file whenever it returns, until ForgetFile.
func (s *Space) KeepFile(segment uint64, file int) { s.kept[segment] = file }

// ForgetFile undoes it.
func (s *Space) ForgetFile(segment uint64) { delete(s.kept, segment) }

// KeepsFile tells whether a segment is mapped from the same file whenever it returns.
func (s *Space) KeepsFile(segment uint64) bool {
	_, ok := s.kept[segment]
	return ok
}

// Owns tells whether a segment is this process's own memory: not a file that was mapped only once.
func (s *Space) Owns(segment uint64) bool { return !s.staged[segment] || s.KeepsFile(segment) }

// Duplicate returns a descriptor of the file of the window that an address of device memory is in,
// and where in the file it is.
func (s *Space) Duplicate(addr uint64) (fd int, start uint64, err error) {
	w := s.windows[s.gpuOf(addr)]
	fd, err = unix.FcntlInt(uintptr(w.file), unix.F_DUPFD_CLOEXEC, 0)
	return fd, addr - w.base, err
}

// Base is where the windows begin.
func (s *Space) Base() uint64 { return s.base }

// Size is the size of all windows together.
func (s *Space) Size() uint64 { return s.size }

// WindowSize is the size of each window.
func (s *Space) WindowSize() uint64 { return s.windows[0].size }

// MapFile maps a whole file of that size at reserved addresses.
func (s *Space) MapFile(file int, addr, bytes uint64) error {
	return s.windows[0].mapFile(file, addr, bytes, windowFlags|unix.MAP_FIXED)
}

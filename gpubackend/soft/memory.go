// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// space is the address space that kernels see. It is the backing of the heap and simt's Memory.
type space struct {
	window *window
	heap   *devmem.Heap
	table  atomic.Pointer[table]
	// file, unless -1, is what the next piece is mapped from instead of the window's own.
	file int
	// start is where in file the piece begins.
	start int64
	// staged are the pieces that have a file of their own.
	staged map[uint64]bool
}

func openSpace(base, size, limit uint64) (*space, error) {
	w, err := openWindow(base, size)
	if err != nil {
		return nil, err
	}
	s := &space{window: w, file: -1, staged: make(map[uint64]bool)}
	s.table.Store(&table{})
	if s.heap, err = devmem.New(base, size, limit, s); err != nil {
		w.close()
		return nil, err
	}
	return s, nil
}

// Map implements devmem.Backing.
func (s *space) Map(addr, bytes uint64) error {
	if s.file >= 0 {
		if err := s.window.mmap(s.file, s.start, addr, bytes, windowFlags|unix.MAP_FIXED); err != nil {
			return err
		}
		s.staged[addr] = true
	}
	s.table.Store(s.table.Load().with(region{addr, addr + bytes, true}))
	return nil
}

// Unmap implements devmem.Backing.
func (s *space) Unmap(addr, bytes uint64) {
	s.table.Store(s.table.Load().without(addr))
	if s.staged[addr] {
		delete(s.staged, addr)
		_ = s.window.restore(addr, bytes) // stays the other file's when the system has no memory for it
	}
	_ = s.window.discard(addr, bytes) // the memory is used again otherwise
}

// Lookup implements simt.Memory.
func (s *space) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	r, ok := s.table.Load().lookup(addr)
	return r.base, r.end, r.writable, ok
}

// inWindow tells whether addr belongs to device memory, allocated or not.
func (s *space) inWindow(addr uint64) bool { return addr-s.window.base < s.window.size }

// allocation is memory of MemAlloc.
type allocation struct {
	ctx   *contexts.Context
	bytes uint64
}

// dropMemory frees what was allocated in a context whose work has ended.
func (d *Device) dropMemory(c *contexts.Context) {
	for addr, a := range d.allocations {
		if a.ctx == c {
			delete(d.allocations, addr)
			d.deferFree(addr)
		}
	}
}

// MemAlloc implements gpubackend.Driver.
func (d *Device) MemAlloc(bytes uint64) (uint64, gpubackend.Result) {
	ctx, result := d.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	addr, result := d.allocate(bytes, d.space.heap.Alloc)
	if result == gpubackend.Success {
		d.allocations[addr] = allocation{ctx, bytes}
	}
	return addr, result
}

// allocate takes device memory, waiting for memory that is being freed when there is no other.
func (d *Device) allocate(bytes uint64, alloc func(uint64) (uint64, error)) (uint64, gpubackend.Result) {
	for {
		d.reclaim()
		addr, err := alloc(bytes)
		switch {
		case err == nil:
			return addr, gpubackend.Success
		case !errors.Is(err, devmem.ErrOutOfMemory):
			return 0, gpubackend.InvalidValue
		case !d.awaitFreed():
			return 0, gpubackend.OutOfMemory
		}
	}
}

// reclaim gives the heap what MemFree promised and no task uses any more.
func (d *Device) reclaim() {
	for _, addr := range d.freed.Take() {
		delete(d.freeing, addr)
		_ = d.space.heap.Free(addr) // was allocated: deferFree is called once an address
	}
}

// awaitFreed waits until reclaim has something to do; it returns false if that won't come.
func (d *Device) awaitFreed() bool {
	return len(d.freeing) > 0 && d.freed.Wait()
}

// MemFree implements gpubackend.Driver. The memory is used again when the device has done all work queued so far.
func (d *Device) MemFree(addr uint64) gpubackend.Result {
	_, result := d.Current()
	if result != gpubackend.Success || addr == 0 {
		return result
	}
	if m := d.graphMemory[addr]; m != nil {
		return d.freeGraphMemory(m)
	}
	if _, ok := d.allocations[addr]; !ok {
		return gpubackend.InvalidValue
	}
	delete(d.allocations, addr)
	d.deferFree(addr)
	d.reclaim()
	return gpubackend.Success
}

// deferFree frees memory when all work queued so far is done.
func (d *Device) deferFree(addr uint64) {
	_, size, _ := d.space.heap.Find(addr)
	d.freeing[addr] = size
	d.freed.After(addr, d.lasts())
}

// deferClose gives back what code takes of the host's memory, when all work queued so far, which may use it, is done.
func (d *Device) deferClose(memory *budget.Account) {
	d.scheduler.Submit(&scheduler.Task{Then: memory.Close}, d.lasts())
}

// MemGetInfo implements gpubackend.Driver.
func (d *Device) MemGetInfo() (free, total uint64, result gpubackend.Result) {
	if _, result := d.Current(); result != gpubackend.Success {
		return 0, 0, result
	}
	d.reclaim()
	total = d.space.heap.Limit() - d.staging
	used := min(d.space.heap.Used()-d.staging, total)
	for _, size := range d.freeing {
		used -= min(used, size)
	}
	return total - used, total, gpubackend.Success
}

// Staging implements gpubackend.Driver. The file's first byte is the first of the memory.
func (d *Device) Staging(bytes uint64) (addr uint64, fd int, result gpubackend.Result) {
	if d.space == nil {
		return 0, -1, gpubackend.NotInitialized
	}
	size := (bytes + devmem.Granularity - 1) &^ (devmem.Granularity - 1)
	if bytes == 0 || size < bytes || size > d.space.window.size {
		return 0, -1, gpubackend.InvalidValue
	}
	fd, err := memoryFile("paracuda-staging", size)
	if err != nil {
		return 0, -1, gpubackend.OutOfMemory
	}
	heap := d.space.heap
	d.space.file = fd
	heap.SetLimit(heap.Limit() + size) // the guest has not asked for it
	addr, result = d.allocate(bytes, heap.AllocPiece)
	d.space.file = -1
	if result != gpubackend.Success {
		heap.SetLimit(heap.Limit() - size)
		unix.Close(fd)
		return 0, -1, result
	}
	d.staging += size
	return addr, fd, gpubackend.Success
}

// Unstage implements gpubackend.Driver.
func (d *Device) Unstage(addr uint64) {
	heap := d.space.heap
	if base, size, ok := heap.Piece(addr); ok && base == addr && heap.Free(addr) == nil {
		heap.SetLimit(heap.Limit() - size)
		d.staging -= size
	}
}

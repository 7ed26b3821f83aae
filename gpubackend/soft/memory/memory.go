// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// Options are what a device's memory is given.
type Options struct {
	Base, Window uint64          // addresses
	Bytes        uint64          // of device memory
	Files        int             // memory without an address
	Account      *ledger.Account // what it counts for; nil: nobody shares the GPU
	Host         *budget.Budget
	Handles      *handles.Table
	Contexts     *contexts.Contexts
	Scheduler    *scheduler.Scheduler
	// Lasts returns the tasks after which all work queued so far is done.
	Lasts func() []*scheduler.Task
}

// Memory is the memory of a device.
type Memory struct {
	options Options
	space   *space.Space // nil before Open and after Close

	allocations map[uint64]allocation // by address
	freeing     map[uint64]uint64     // given back but perhaps still in use: address, size
	freed       *scheduler.Returned   // that nothing uses any more
	staging     uint64                // bytes given by Staging
	files       int                   // memory without an address
}

// New returns the memory of a device that isn't open: there is none.
func New(o Options) *Memory {
	return &Memory{
		options: o, allocations: make(map[uint64]allocation), freeing: make(map[uint64]uint64),
		freed: o.Scheduler.NewReturned(),
	}
}

// Open takes addresses; memory comes as it is used.
func (m *Memory) Open() error {
	o := &m.options
	var err error
	if m.space, err = space.Open(o.Base, o.Window, o.Bytes); err == nil {
		m.space.Heap.Meter(o.Host)
		m.space.Heap.Count(o.Account)
	}
	return err
}

// Close gives everything back. Nothing may use it any more.
func (m *Memory) Close() {
	for handle, object := range m.options.Handles.All() {
		if p, ok := object.(*physical); ok {
			unix.Close(p.file)
			m.options.Handles.Remove(handle)
		}
	}
	m.files = 0
	m.space.Close()
	m.space = nil
}

// Space is the addresses that kernels see; nil before the device is open.
func (m *Memory) Space() *space.Space { return m.space }

// Reaches tells whether a copy or fill may touch the range: it must lie in one allocation or in
// registered memory.
func (m *Memory) Reaches(addr, n uint64, write bool) bool {
	if !m.space.InWindow(addr) {
		return m.space.Covers(addr, n, write)
	}
	base, size, ok := m.space.Heap.Find(addr)
	if _, freed := m.freeing[base]; !ok || freed {
		return false
	}
	return n <= size-(addr-base)
}

// allocation is memory of MemAlloc.
type allocation struct {
	ctx   *contexts.Context
	bytes uint64
}

// Drop frees what was allocated in a context whose work has ended.
func (m *Memory) Drop(c *contexts.Context) {
	for addr, a := range m.allocations {
		if a.ctx == c {
			delete(m.allocations, addr)
			m.DeferFree(addr)
		}
	}
}

// MemAlloc implements gpubackend.Driver.
func (m *Memory) MemAlloc(bytes uint64) (uint64, gpubackend.Result) {
	ctx, result := m.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	addr, result := m.allocate(bytes, m.space.Heap.Alloc)
	if result == gpubackend.Success {
		m.allocations[addr] = allocation{ctx, bytes}
	}
	return addr, result
}

// allocate takes device memory, waiting for memory that is being freed when there is no other.
func (m *Memory) allocate(
	bytes uint64, alloc func(uint64) (uint64, error),
) (uint64, gpubackend.Result) {
	for {
		m.Reclaim()
		addr, err := alloc(bytes)
		switch {
		case err == nil:
			return addr, gpubackend.Success
		case !errors.Is(err, devmem.ErrOutOfMemory):
			return 0, gpubackend.InvalidValue
		case !m.awaitFreed():
			return 0, gpubackend.OutOfMemory
		}
	}
}

// Reclaim gives the heap what MemFree promised and no task uses any more.
func (m *Memory) Reclaim() {
	for _, addr := range m.freed.Take() {
		delete(m.freeing, addr)
		_ = m.space.Heap.Free(addr) // was allocated: DeferFree is called once an address
	}
}

// awaitFreed waits until reclaim has something to do; it returns false if that won't come.
func (m *Memory) awaitFreed() bool {
	return len(m.freeing) > 0 && m.freed.Wait()
}

// MemFree implements gpubackend.Driver. The memory is used again when the device has done all work
// queued so far.
func (m *Memory) MemFree(addr uint64) gpubackend.Result {
	_, result := m.options.Contexts.Current()
	if result != gpubackend.Success || addr == 0 {
		return result
	}
	if _, ok := m.allocations[addr]; !ok {
		return gpubackend.InvalidValue
	}
	delete(m.allocations, addr)
	m.DeferFree(addr)
	m.Reclaim()
	return gpubackend.Success
}

// DeferFree frees memory when all work queued so far is done.
func (m *Memory) DeferFree(addr uint64) {
	_, size, _ := m.space.Heap.Find(addr)
	m.freeing[addr] = size
	m.freed.After(addr, m.options.Lasts())
}

// After calls then when all work queued so far is done, with the scheduler's lock.
func (m *Memory) After(then func()) {
	m.options.Scheduler.Submit(&scheduler.Task{Then: then}, m.options.Lasts())
}

// Alloc takes device memory of the heap, for what isn't the guest's own allocation.
func (m *Memory) Alloc(k ledger.Kind, bytes uint64) (uint64, gpubackend.Result) {
	return m.allocate(bytes, func(bytes uint64) (uint64, error) {
		return m.space.Heap.AllocAs(k, bytes)
	})
}

// AllocSegment takes a segment of its own, mapped from a file, from start on.
func (m *Memory) AllocSegment(
	k ledger.Kind, file int, start int64, bytes uint64,
) (addr uint64, result gpubackend.Result) {
	alloc := func(bytes uint64) (uint64, error) { return m.space.Heap.AllocSegment(k, bytes) }
	m.space.WithFile(file, start, func() { addr, result = m.allocate(bytes, alloc) })
	return addr, result
}

// contextBytes is what a context counts for. It takes next to nothing here; on a GPU it takes
// hundreds of MiB.
const contextBytes = 8 << 20

// TakeContext counts a context that is about to begin, if there is room for it. Where nobody shares
// the GPU it counts for nothing.
func (m *Memory) TakeContext() bool {
	return m.options.Account == nil || m.space.Heap.Charge(ledger.Contexts, contextBytes) == nil
}

// GiveContext counts a context no more.
func (m *Memory) GiveContext() {
	if m.options.Account != nil && m.space != nil {
		m.space.Heap.Uncharge(ledger.Contexts, contextBytes)
	}
}

// MemGetInfo implements gpubackend.Driver.
func (m *Memory) MemGetInfo() (free, total uint64, result gpubackend.Result) {
	if _, result := m.options.Contexts.Current(); result != gpubackend.Success {
		return 0, 0, result
	}
	m.Reclaim()
	total = m.space.Heap.Limit() - m.staging
	used := min(m.space.Heap.Used()-m.staging, total)
	for _, size := range m.freeing {
		used -= min(used, size)
	}
	free = total - used
	if bound, taken, ok := m.options.Account.Share(); ok {
		total = min(total, bound)
		free = min(free, total-min(total, taken-min(taken, m.spare())))
	}
	return free, total, gpubackend.Success
}

// spare is what is taken and is there for the next allocation.
func (m *Memory) spare() uint64 {
	spare := m.space.Heap.Spare()
	for _, size := range m.freeing {
		spare += size
	}
	return spare
}

// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/devmem/layout"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/peers"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// Options are what a device's memory is given.
type Options struct {
	Base, Window uint64 // addresses: the first, and how many each GPU has
	Files        int    // memory without an address
	Host         *budget.Budget
	Handles      *handles.Table
	Contexts     *contexts.Contexts
	Scheduler    *scheduler.Scheduler
	// Lasts returns the tasks after which all work queued so far is done.
	Lasts func() []*scheduler.Task
}

// GPU is the memory of one GPU.
type GPU struct {
	Number  int // among the VM's GPUs, whichever of them the process sees
	Bytes   uint64
	Account *ledger.Account // what it counts for; nil: nobody shares the GPU
}

// Memory is the memory of a device's GPUs. A context allocates on its own.
type Memory struct {
	options Options
	space   *space.Space // nil before Open and after Close

	allocations map[uint64]allocation // by address
	freeing     map[uint64]uint64     // given back but perhaps still in use: address, size
	freed       *scheduler.Returned   // that nothing uses any more
	staging     []uint64              // bytes given by Staging, of each GPU
	numbers     []int                 // of each GPU, among the VM's
	files       int                   // memory without an address
	created     map[uint64]*physical  // such of CreateMemory, by the addresses of its segments
	mapped      map[uint64]int        // GPUs whose memory MapMemory mapped, by address
	peers       *peers.GPUs           // which GPUs reach the memory of others
	restorer    layout.Restorer       // of the heaps, while they are made what others were
}

// New returns the memory of a device that isn't open, which has none.
func New(o Options) *Memory {
	m := &Memory{
		options: o, allocations: make(map[uint64]allocation), freeing: make(map[uint64]uint64),
		created: make(map[uint64]*physical),
		mapped:  make(map[uint64]int),
		freed:   o.Scheduler.NewReturned(),
	}
	m.peers = peers.NewGPUs(func(from, of int, reaches bool) gpubackend.Result {
		m.space.Connect(from, of, reaches)
		return gpubackend.Success
	})
	return m
}

// Open takes addresses for the memory of these GPUs; memory comes as it is used.
func (m *Memory) Open(gpus ...GPU) error {
	o, windows, numbers := &m.options, make([]space.GPU, len(gpus)), make([]int, len(gpus))
	for i, g := range gpus {
		windows[i], numbers[i] = space.GPU{Number: g.Number, Limit: g.Bytes}, g.Number
	}
	var err error
	if m.space, err = space.Open(o.Base, o.Window, windows...); err != nil {
		return err
	}
	for i, h := range m.space.Heaps() {
		h.Meter(o.Host)
		h.Count(gpus[i].Account)
	}
	m.staging, m.numbers = make([]uint64, len(gpus)), numbers
	return nil
}

// heap is the heap of the current context's GPU.
func (m *Memory) heap() *devmem.Heap { return m.space.Heap(m.options.Contexts.CurrentGPU()) }

// Close gives everything back. Nothing may use it any more.
func (m *Memory) Close() {
	for handle, object := range m.options.Handles.All() {
		if p, ok := object.(*physical); ok {
			unix.Close(p.file)
			m.options.Handles.Remove(handle)
		}
	}
	for _, p := range m.created {
		unix.Close(p.file)
	}
	clear(m.created)
	clear(m.mapped)
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
	base, size, ok := m.space.HeapOf(addr).Find(addr)
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
	addr, result := m.allocate(bytes, m.space.Heap(ctx.GPU).Alloc)
	if result == gpubackend.Success {
		m.allocations[addr] = allocation{ctx, bytes}
	}
	return addr, result
}

// MemAllocNow implements gpubackend.Allocating.
func (m *Memory) MemAllocNow(bytes uint64) (addr uint64, later bool, result gpubackend.Result) {
	ctx, result := m.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, false, result
	}
	m.Reclaim()
	addr, err := m.space.Heap(ctx.GPU).Alloc(bytes)
	switch {
	case err == nil:
		m.allocations[addr] = allocation{ctx, bytes}
		return addr, false, gpubackend.Success
	case !errors.Is(err, devmem.ErrOutOfMemory):
		return 0, false, gpubackend.InvalidValue
	}
	return 0, len(m.freeing) > 0, gpubackend.OutOfMemory
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
		_ = m.space.HeapOf(addr).Free(addr) // was allocated: DeferFree is called once an address
	}
}

// awaitFreed waits until reclaim has something to do; it returns false if that won't come.
func (m *Memory) awaitFreed() bool {
	return len(m.freeing) > 0 && m.freed.Wait()
}

// MemFree implements gpubackend.Driver. The memory is reused when the device has done all work
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
	_, size, _ := m.space.HeapOf(addr).Find(addr)
	m.freeing[addr] = size
	m.freed.After(addr, m.options.Lasts())
}

// After calls then when all work queued so far is done, with the scheduler's lock.
func (m *Memory) After(then func()) {
	m.options.Scheduler.Submit(&scheduler.Task{Then: then}, m.options.Lasts())
}

// Alloc takes memory of the current context's GPU for something other than the guest's own
// allocations.
func (m *Memory) Alloc(k ledger.Kind, bytes uint64) (uint64, gpubackend.Result) {
	return m.allocate(bytes, func(bytes uint64) (uint64, error) {
		return m.heap().AllocAs(k, bytes)
	})
}

// AllocSegment takes a segment of its own that maps a file, from start on.
func (m *Memory) AllocSegment(
	k ledger.Kind, file int, start int64, bytes uint64,
) (addr uint64, result gpubackend.Result) {
	alloc := func(bytes uint64) (uint64, error) { return m.heap().AllocSegment(k, bytes) }
	m.space.WithFile(file, start, func() { addr, result = m.allocate(bytes, alloc) })
	return addr, result
}

// contextBytes is what a context counts for. It takes next to nothing here; on a GPU it takes
// hundreds of MiB.
const contextBytes = 8 << 20

// TakeContext counts a context that is about to begin, if there is room for it. Where nobody shares
// the GPU it counts for nothing.
func (m *Memory) TakeContext(gpu int) bool {
	h := m.space.Heap(gpu)
	return h.Account() == nil || h.Charge(ledger.Contexts, contextBytes) == nil
}

// GiveContext takes a context out of the count.
func (m *Memory) GiveContext(gpu int) {
	if m.space != nil && m.space.Heap(gpu).Account() != nil {
		m.space.Heap(gpu).Uncharge(ledger.Contexts, contextBytes)
	}
}

// MemGetInfo implements gpubackend.Driver.
func (m *Memory) MemGetInfo() (free, total uint64, result gpubackend.Result) {
	c, result := m.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, 0, result
	}
	m.Reclaim()
	h, staging, freeing := m.space.Heap(c.GPU), m.staging[c.GPU], m.freeingOf(c.GPU)
	total = h.Limit() - staging
	used := min(h.Used()-staging, total)
	free = total - (used - min(used, freeing))
	if bound, taken, ok := h.Account().Share(); ok {
		total = min(total, bound)
		// what is spare, or being freed, is there for the next allocation
		free = min(free, total-min(total, taken-min(taken, h.Spare()+freeing)))
	}
	return free, total, gpubackend.Success
}

// freeingOf is how much of a GPU's memory is being freed.
func (m *Memory) freeingOf(gpu int) (bytes uint64) {
	for addr, size := range m.freeing {
		if m.space.HeapOf(addr) == m.space.Heap(gpu) {
			bytes += size
		}
	}
	return bytes
}

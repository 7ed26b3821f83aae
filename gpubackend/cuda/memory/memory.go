// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/cuda/sums"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/devmem/layout"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/peers"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	CtxSynchronize() gpubackend.Result
	MemGetInfo() (free, total uint64, r gpubackend.Result)
	MemAddressReserve(bytes, at uint64) (uint64, gpubackend.Result)
	MemAddressFree(addr, bytes uint64) gpubackend.Result
	MemCreate(bytes, device, compression uint64) (handle uint64, r gpubackend.Result)
	MemRelease(handle uint64) gpubackend.Result
	MemExport(handle uint64) (fd int, r gpubackend.Result)
	MemImport(fd int) (handle uint64, r gpubackend.Result)
	MemDevice(handle uint64) (device uint64, r gpubackend.Result)
	MemMap(addr, bytes, handle uint64) gpubackend.Result
	MemUnmap(addr, bytes uint64) gpubackend.Result
	MemSetAccess(addr, bytes, device, access uint64) gpubackend.Result
	MemcpyDtoHAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result
	MemcpyHtoDAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result
	sums.Calls
}

// Streams says whether work is in flight.
type Streams interface {
	Query() gpubackend.Result // asks for the current context
	Capturing() bool
}

// Graphs is memory that graphs allocate.
type Graphs interface {
	// Trim gives up what graphs have and don't use. It says whether that was anything.
	Trim() bool
	// FreeNow frees what a graph allocated; InvalidValue if none did.
	FreeNow(addr uint64) gpubackend.Result
}

// Options are those of memory.
type Options struct {
	Limit    uint64          // of device memory; 0 is none
	Accounts *ledger.Process // what device memory counts for; nil: nobody else shares it
	Host     *budget.Budget  // what records of memory count for
	Log      *logrus.Entry
}

// Memory is the device memory of one guest process.
type Memory struct {
	calls    Calls
	contexts *contexts.Contexts
	gpus     *gpus.List
	ranges   *copyable.Ranges
	streams  Streams
	graphs   Graphs
	options  Options

	heaps    []heap
	window   uint64                        // of each
	peers    *peers.GPUs                   // which GPUs reach the memory of others
	owners   map[uint64]*contexts.Context  // of what was allocated
	freed    map[*contexts.Context][]freed // by the context that freed it
	memories map[gpubackend.Memory]guestMemory
	mapped   map[uint64]*created // what the guest has mapped, by its addresses
	mapping  copyable.Spans      // these addresses

	variables map[uint64]struct{} // memory of code, by its address

	restorer layout.Restorer // of the heaps, while they are made what others were
	pumps    map[*contexts.Context]*pump
	summers  map[*contexts.Context]*sums.Summer
}

// New returns the memory of a process, which has none before Open.
func New(
	calls Calls, x *contexts.Contexts, list *gpus.List, ranges *copyable.Ranges, o Options,
) *Memory {
	m := &Memory{
		calls: calls, contexts: x, gpus: list, ranges: ranges, options: o,
		owners:   make(map[uint64]*contexts.Context),
		freed:    make(map[*contexts.Context][]freed),
		memories: make(map[gpubackend.Memory]guestMemory), mapped: make(map[uint64]*created),
		variables: make(map[uint64]struct{}),
		pumps:     make(map[*contexts.Context]*pump),
		summers:   make(map[*contexts.Context]*sums.Summer),
	}
	m.peers = peers.NewGPUs(m.connect)
	return m
}

// Connect names the rooms to ask. It is called once, before the first allocation.
func (m *Memory) Connect(s Streams, g Graphs) { m.streams, m.graphs = s, g }

// Limit bounds device memory; 0 is no limit. It may change.
func (m *Memory) Limit() uint64 {
	limit := m.options.Limit
	if len(m.heaps) > 0 {
		if bound := m.heaps[0].Account().Bound(); bound != 0 && (limit == 0 || bound < limit) {
			return bound
		}
	}
	return limit
}

// MemAlloc allocates in the window.
func (m *Memory) MemAlloc(bytes uint64) (uint64, gpubackend.Result) {
	addr, later, r := m.MemAllocNow(bytes)
	if later && m.awaitFreed() {
		addr, _, r = m.MemAllocNow(bytes)
	}
	return addr, r
}

// MemAllocNow implements gpubackend.Allocating.
func (m *Memory) MemAllocNow(bytes uint64) (addr uint64, later bool, r gpubackend.Result) {
	if !m.contexts.Usable() {
		return 0, false, gpubackend.InvalidContext
	}
	if bytes == 0 {
		return 0, false, gpubackend.InvalidValue
	}
	c := m.contexts.Current()
	if dead := c.Dead(); dead != gpubackend.Success {
		return 0, false, dead
	}
	m.reclaim()
	h := m.heaps[c.GPU].Heap
	addr, err := h.Alloc(bytes)
	if err != nil && m.graphs.Trim() {
		addr, err = h.Alloc(bytes)
	}
	if err != nil {
		if !errors.Is(err, devmem.ErrOutOfMemory) {
			m.options.Log.WithError(err).WithField("bytes", bytes).Error("allocate device memory")
		}
		return 0, m.comesBack(c), gpubackend.OutOfMemory
	}
	m.owners[addr] = c.Home()
	return addr, false, gpubackend.Success
}

// MemFree gives memory back: at once when the context is known to be idle, otherwise when it is
// next seen idle.
func (m *Memory) MemFree(addr uint64) gpubackend.Result {
	if !m.contexts.Usable() {
		return gpubackend.InvalidContext
	}
	owner := m.owners[addr]
	if owner == nil {
		return m.graphs.FreeNow(addr)
	}
	delete(m.owners, addr)
	if m.contexts.Idle() {
		return m.release(owner.GPU, addr)
	}
	c := m.contexts.Current()
	m.freed[c] = append(m.freed[c], freed{owner.GPU, addr})
	return gpubackend.Success
}

// MemGetInfo tells of the device, or of the part of it that this process or its VM may have.
func (m *Memory) MemGetInfo() (free, total uint64, r gpubackend.Result) {
	free, total, r = m.calls.MemGetInfo()
	c := m.contexts.Current()
	if r != gpubackend.Success || c == nil {
		return
	}
	h := &m.heaps[c.GPU]
	if limit := m.options.Limit; limit != 0 {
		total = min(total, limit)
		free = min(free, total-min(total, h.Used()))
	}
	if bound, taken, ok := h.Account().Share(); ok {
		total = min(total, bound)
		free = min(free, total-min(total, taken-min(taken, h.Spare())))
	}
	return
}

// Staging makes memory that the mover maps: a segment of its own, exported as a file.
func (m *Memory) Staging(bytes uint64) (addr uint64, fd int, r gpubackend.Result) {
	c := m.contexts.Current()
	if c == nil {
		return 0, -1, gpubackend.InvalidContext
	}
	m.reclaim()
	h := &m.heaps[c.GPU]
	h.backing.export = true
	addr, err := h.AllocSegment(ledger.Staging, bytes)
	if err != nil && m.Reclaim() {
		addr, err = h.AllocSegment(ledger.Staging, bytes)
	}
	h.backing.export = false
	if err != nil {
		return 0, -1, gpubackend.OutOfMemory
	}
	return addr, h.backing.takeExported(), gpubackend.Success
}

// Unstage gives it back to its heap.
func (m *Memory) Unstage(addr uint64) {
	for i := range m.heaps {
		if base, _, ok := m.heaps[i].Segment(addr); ok && base == addr {
			_ = m.heaps[i].Free(addr) // was allocated: the worker calls this once an address
		}
	}
}

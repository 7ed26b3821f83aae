// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"sort"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Addresses that a guest may reserve: no address space layout of Linux or of the driver uses them, and they are
// another part than the window of device memory.
const (
	reserveBase = 0x400000000000
	reserveEnd  = 0x500000000000
)

// mappings is the guest's virtual memory management.
type mappings struct {
	reserved []addresses.Range  // sorted
	mapped   []mapped           // sorted
	memory   map[uint64]*memory // by handle; imported memory may have several
	shared   sharedMemory
}

// mapped is memory at an address.
type mapped struct {
	addresses.Range
	memory *memory
	access uint64
}

// memory is device memory without an address. It lasts as long as its handles and its mappings.
type memory struct {
	native uint64
	bytes  uint64
	device uint64
	uses   int
	number uint32 // by which it is exported, 0 if it isn't
	id     uint64 // by which it was imported, 0 if it wasn't
}

// aligned says whether a range is one that the guest may name.
func aligned(base, bytes uint64) bool {
	return base%gpubackend.Granularity == 0 && bytes%gpubackend.Granularity == 0 && bytes != 0 &&
		base >= reserveBase && base < reserveEnd && bytes <= reserveEnd-base
}

// firstReserved and firstMapped are the positions of the first range that ends behind addr.
func (m *mappings) firstReserved(addr uint64) int {
	return sort.Search(len(m.reserved), func(i int) bool { return m.reserved[i].End() > addr })
}

func (m *mappings) firstMapped(addr uint64) int {
	return sort.Search(len(m.mapped), func(i int) bool { return m.mapped[i].End() > addr })
}

// at is the mapping that holds an address, or nil.
func (m *mappings) at(addr uint64) *mapped {
	if i := m.firstMapped(addr); i < len(m.mapped) && m.mapped[i].Base <= addr {
		return &m.mapped[i]
	}
	return nil
}

// runReserve sets addresses aside.
func (w *Worker) runReserve(c *call.Call, a command.MemAddressReserve) gpubackend.Result {
	m, base, bytes := &w.mappings, a.Address, a.Bytes
	if !aligned(base, bytes) {
		return gpubackend.InvalidValue
	}
	i := m.firstReserved(base)
	if i < len(m.reserved) && m.reserved[i].Base < base+bytes {
		return gpubackend.InvalidValue
	}
	if !w.places.Take(addresses.OfReserved) {
		return gpubackend.OutOfMemory
	}
	result := w.driver.Reserve(base, bytes)
	if result != gpubackend.Success {
		w.places.Give(addresses.OfReserved)
		return result
	}
	m.reserved = slices.Insert(m.reserved, i, addresses.Of(base, bytes))
	return result
}

// runUnreserve gives back a whole reservation.
func (w *Worker) runUnreserve(c *call.Call, a command.MemAddressFree) gpubackend.Result {
	m, base, bytes := &w.mappings, a.Address, a.Bytes
	i := m.firstReserved(base)
	if i == len(m.reserved) || m.reserved[i] != (addresses.Of(base, bytes)) {
		return gpubackend.InvalidValue
	}
	if k := m.firstMapped(base); k < len(m.mapped) && m.mapped[k].Base < base+bytes {
		return gpubackend.InvalidValue
	}
	result := w.driver.Unreserve(base, bytes)
	if result == gpubackend.Success {
		m.reserved = slices.Delete(m.reserved, i, i+1)
		w.places.Give(addresses.OfReserved)
	}
	return result
}

// runCreateMemory makes memory.
func (w *Worker) runCreateMemory(c *call.Call, a command.MemCreate) gpubackend.Result {
	bytes, device, compression := a.Bytes, a.Device, a.Compression
	if bytes == 0 || bytes%gpubackend.Granularity != 0 {
		return gpubackend.InvalidValue
	}
	native, result := w.driver.CreateMemory(bytes, device, compression)
	if result == gpubackend.OutOfMemory && w.pools.empty(w) {
		native, result = w.driver.CreateMemory(bytes, device, compression)
	}
	if result != gpubackend.Success {
		return result
	}
	handle := w.addMemory(&memory{native: uint64(native), bytes: bytes, device: device, uses: 1})
	if handle == 0 {
		w.driver.ReleaseMemory(native)
		return gpubackend.OutOfMemory
	}
	c.Put(command.MemCreateAnswer{Memory: handle})
	return gpubackend.Success
}

// addMemory gives memory a handle, which is one of its uses; 0 when there is no room.
func (w *Worker) addMemory(x *memory) uint64 {
	if !w.objects.Room(object.Memory) {
		return 0
	}
	handle := w.objects.Add(object.Memory, x.native, 0)
	if w.mappings.memory == nil {
		w.mappings.memory = map[uint64]*memory{}
	}
	w.mappings.memory[handle] = x
	return handle
}

// runReleaseMemory gives up a handle; mappings keep the memory.
func (w *Worker) runReleaseMemory(c *call.Call, a command.MemRelease) gpubackend.Result {
	x := w.mappings.memory[a.Memory]
	if x == nil {
		return gpubackend.InvalidValue
	}
	delete(w.mappings.memory, a.Memory)
	w.objects.Remove(a.Memory)
	return w.unuse(x)
}

func (w *Worker) unuse(x *memory) gpubackend.Result {
	if x.uses--; x.uses > 0 {
		return gpubackend.Success
	}
	w.mappings.shared.forget(x)
	w.withdrawObject(handover.ObjectMemory, x.number)
	return w.driver.ReleaseMemory(gpubackend.Memory(x.native))
}

// runMapMemory puts memory at reserved addresses.
func (w *Worker) runMapMemory(c *call.Call, a command.MemMap) gpubackend.Result {
	m, base, bytes := &w.mappings, a.Address, a.Bytes
	x := m.memory[a.Memory]
	if x == nil || !aligned(base, bytes) || bytes != x.bytes {
		return gpubackend.InvalidValue
	}
	i := m.firstReserved(base)
	if i == len(m.reserved) || m.reserved[i].Base > base || m.reserved[i].End() < base+bytes {
		return gpubackend.InvalidValue
	}
	k := m.firstMapped(base)
	if k < len(m.mapped) && m.mapped[k].Base < base+bytes {
		return gpubackend.InvalidValue
	}
	if !w.places.Take(addresses.OfMapped) {
		return gpubackend.OutOfMemory
	}
	result := w.driver.MapMemory(base, bytes, gpubackend.Memory(x.native))
	if result != gpubackend.Success {
		w.places.Give(addresses.OfMapped)
		return result
	}
	x.uses++
	m.mapped = slices.Insert(m.mapped, k, mapped{addresses.Of(base, bytes), x, gpubackend.AccessNone})
	return result
}

// runUnmapMemory unmaps whole mappings, when nothing uses them.
func (w *Worker) runUnmapMemory(c *call.Call, a command.MemUnmap) gpubackend.Result {
	base, bytes := a.Address, a.Bytes
	return w.whenIdle(c, func() (uint64, gpubackend.Result) { return 0, w.unmap(base, bytes) })
}

func (w *Worker) unmap(base, bytes uint64) gpubackend.Result {
	m := &w.mappings
	from, to, ok := m.whole(base, bytes)
	if !ok {
		return gpubackend.InvalidValue
	}
	for _, x := range m.mapped[from:to] {
		w.endLoans(x.Base, x.Bytes)
		if result := w.driver.UnmapMemory(x.Base, x.Bytes); result != gpubackend.Success {
			return result
		}
		w.unuse(x.memory)
	}
	m.mapped = slices.Delete(m.mapped, from, to)
	w.places.Give(addresses.OfMapped * (to - from))
	return gpubackend.Success
}

// whole finds the mappings that make up a range without a gap and without a rest.
func (m *mappings) whole(base, bytes uint64) (from, to int, ok bool) {
	if !aligned(base, bytes) {
		return 0, 0, false
	}
	from = m.firstMapped(base)
	to = from
	for at := base; at < base+bytes; to++ {
		if to == len(m.mapped) || m.mapped[to].Base != at || m.mapped[to].End() > base+bytes {
			return 0, 0, false
		}
		at = m.mapped[to].End()
	}
	return from, to, true
}

// runProtect says how a device may access mappings. What takes access away waits for the work that may use it.
func (w *Worker) runProtect(c *call.Call, a command.MemSetAccess) gpubackend.Result {
	base, bytes, device, access := a.Address, a.Bytes, a.Device, a.Access
	from, to, ok := w.mappings.whole(base, bytes)
	if !ok {
		return gpubackend.InvalidValue
	}
	for _, x := range w.mappings.mapped[from:to] {
		if x.access > access {
			return w.whenIdle(c, func() (uint64, gpubackend.Result) { return 0, w.protect(base, bytes, device, access) })
		}
	}
	return w.protect(base, bytes, device, access)
}

func (w *Worker) protect(base, bytes, device, access uint64) gpubackend.Result {
	from, to, ok := w.mappings.whole(base, bytes)
	if !ok {
		return gpubackend.InvalidValue
	}
	for i := from; i < to; i++ {
		x := &w.mappings.mapped[i]
		if x.access == access {
			continue
		}
		w.endLoans(x.Base, x.Bytes)
		if result := w.driver.Protect(x.Base, x.Bytes, device, access); result != gpubackend.Success {
			return result
		}
		x.access = access
	}
	return gpubackend.Success
}

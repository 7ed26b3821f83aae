// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// guestMemory is what ImportMemory opened: its GPU and its size.
type guestMemory struct {
	gpu   int
	bytes uint64
	again int // times that the driver gave the same handle once more
}

// Reserve reserves exactly these addresses, or none.
func (m *Memory) Reserve(addr, bytes uint64) gpubackend.Result {
	got, r := m.calls.MemAddressReserve(bytes, addr)
	if r != gpubackend.Success {
		return r
	}
	if got != addr {
		m.calls.MemAddressFree(got, bytes)
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// Unreserve gives them back.
func (m *Memory) Unreserve(addr, bytes uint64) gpubackend.Result {
	return m.calls.MemAddressFree(addr, bytes)
}

// CreateMemory makes memory that counts like that of the heap.
func (m *Memory) CreateMemory(
	bytes, device, compression uint64,
) (gpubackend.Memory, gpubackend.Result) {
	i, ok := m.gpus.Find(device)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	if m.contexts.Current() != nil {
		m.reclaim()
	}
	h, c := &m.heaps[i], &created{compression: compression, mappings: make(map[uint64]*mapping)}
	take := func() (uint64, error) { return h.AllocSegment(ledger.Mapped, bytes) }
	addr, err := h.backing.making(c, take)
	if errors.Is(err, devmem.ErrOutOfMemory) && m.graphs.Trim() {
		addr, err = h.backing.making(c, take)
	}
	switch {
	case err == nil:
		return gpubackend.Memory(addr), gpubackend.Success
	case c.result != gpubackend.Success:
		return 0, c.result
	}
	return 0, gpubackend.OutOfMemory
}

// TakeMemory implements gpubackend.Driver.
func (m *Memory) TakeMemory(x gpubackend.CreatedMemory) gpubackend.Result {
	addr := uint64(x.Memory)
	i, ok := m.gpus.Find(x.Device)
	if !ok || m.gpuAt(addr) != i || m.restorer.Next(addr) != nil {
		return gpubackend.InvalidValue
	}
	h := &m.heaps[i]
	if at, err := h.AllocSegment(ledger.Mapped, x.Bytes); err != nil || at != addr {
		return gpubackend.InvalidValue
	}
	c := &created{compression: x.Compression, mappings: make(map[uint64]*mapping)}
	_, err := h.backing.making(c, func() (uint64, error) { return addr, h.Return(addr) })
	switch {
	case err == nil:
		return gpubackend.Success
	case c.result != gpubackend.Success:
		return c.result
	}
	return gpubackend.OutOfMemory
}

// createdAt is memory of CreateMemory, and the heap that it counts in; nil: it is none.
func (m *Memory) createdAt(handle gpubackend.Memory) (*heap, *created) {
	i := m.gpuAt(uint64(handle)) // the window is this process's: no handle of the driver is in it
	if i < 0 {
		return nil, nil
	}
	return &m.heaps[i], m.heaps[i].backing.created[uint64(handle)]
}

// handleOf is what the driver calls memory.
func (m *Memory) handleOf(handle gpubackend.Memory) uint64 {
	if _, c := m.createdAt(handle); c != nil {
		return c.handle
	}
	return uint64(handle)
}

// ExportMemory gives the driver's own file.
func (m *Memory) ExportMemory(handle gpubackend.Memory) (int, gpubackend.Result) {
	return m.calls.MemExport(m.handleOf(handle))
}

// ImportMemory opens it in another process. Only a hostile worker gives a file that isn't the
// driver's.
func (m *Memory) ImportMemory(fd int, bytes, device uint64) (gpubackend.Memory, gpubackend.Result) {
	i, ok := m.gpus.Find(device)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	h, r := m.calls.MemImport(fd)
	if r != gpubackend.Success {
		return 0, r
	}
	handle := gpubackend.Memory(h)
	if x, known := m.memories[handle]; known { // memory counts once
		x.again++
		m.memories[handle] = x
		return handle, r
	}
	if !m.As(ledger.Mapped).ChargeNow(i, bytes) {
		m.calls.MemRelease(h)
		return 0, gpubackend.OutOfMemory
	}
	m.memories[handle] = guestMemory{gpu: i, bytes: bytes}
	return handle, r
}

// ReleaseMemory gives it back.
func (m *Memory) ReleaseMemory(handle gpubackend.Memory) gpubackend.Result {
	if h, c := m.createdAt(handle); c != nil {
		_ = h.Free(uint64(handle)) // it is there
		delete(h.backing.created, uint64(handle))
		return gpubackend.Success
	}
	x, ok := m.memories[handle]
	if !ok {
		return gpubackend.InvalidValue
	}
	r := m.calls.MemRelease(uint64(handle))
	if r == gpubackend.Success && x.again > 0 {
		x.again--
		m.memories[handle] = x
		return r
	}
	if r == gpubackend.Success {
		delete(m.memories, handle)
		m.As(ledger.Mapped).Uncharge(x.gpu, x.bytes)
	}
	return r
}

// MapMemory maps all of m.
func (m *Memory) MapMemory(addr, bytes uint64, handle gpubackend.Memory) gpubackend.Result {
	r := m.calls.MemMap(addr, bytes, m.handleOf(handle))
	if r != gpubackend.Success {
		return r
	}
	if _, c := m.createdAt(handle); c != nil {
		c.mappings[addr] = &mapping{bytes: bytes, access: make(map[uint64]uint64)}
		m.mapped[addr] = c
		m.mapping.Put(copyable.Span{Base: addr, Bytes: bytes})
	}
	return r
}

// UnmapMemory undoes it.
func (m *Memory) UnmapMemory(addr, bytes uint64) gpubackend.Result {
	r := m.calls.MemUnmap(addr, bytes)
	if c := m.mapped[addr]; r == gpubackend.Success && c != nil {
		delete(c.mappings, addr)
		delete(m.mapped, addr)
		m.mapping.Remove(addr)
	}
	return r
}

// Protect sets a device's access.
func (m *Memory) Protect(addr, bytes, device, access uint64) gpubackend.Result {
	i, ok := m.gpus.Find(device)
	if !ok {
		return gpubackend.InvalidDevice
	}
	native := m.gpus.At(i).Native
	r := m.calls.MemSetAccess(addr, bytes, native, access)
	if c := m.mapped[addr]; r == gpubackend.Success && c != nil {
		if c.mappings[addr].access[native] = access; access == gpubackend.AccessNone {
			delete(c.mappings[addr].access, native)
		}
	}
	return r
}

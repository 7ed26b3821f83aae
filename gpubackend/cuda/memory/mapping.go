// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// guestMemory is what CreateMemory made or ImportMemory opened: its GPU and its size.
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
	counts := m.As(ledger.Mapped)
	if !counts.ChargeNow(i, bytes) && !(m.graphs.Trim() && counts.ChargeNow(i, bytes)) {
		return 0, gpubackend.OutOfMemory
	}
	g := &m.heaps[i]
	h, r := g.backing.create(bytes, compression)
	if r == gpubackend.OutOfMemory && g.Trim() {
		h, r = g.backing.create(bytes, compression)
	}
	if r != gpubackend.Success {
		counts.Uncharge(i, bytes)
		return 0, r
	}
	m.memories[gpubackend.Memory(h)] = guestMemory{gpu: i, bytes: bytes}
	return gpubackend.Memory(h), gpubackend.Success
}

// ExportMemory gives the driver's own file.
func (m *Memory) ExportMemory(handle gpubackend.Memory) (int, gpubackend.Result) {
	return m.calls.MemExport(uint64(handle))
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
	return m.calls.MemMap(addr, bytes, uint64(handle))
}

// UnmapMemory undoes it.
func (m *Memory) UnmapMemory(addr, bytes uint64) gpubackend.Result {
	return m.calls.MemUnmap(addr, bytes)
}

// Protect sets a device's access.
func (m *Memory) Protect(addr, bytes, device, access uint64) gpubackend.Result {
	i, ok := m.gpus.Find(device)
	if !ok {
		return gpubackend.InvalidDevice
	}
	return m.calls.MemSetAccess(addr, bytes, m.gpus.At(i).Native, access)
}

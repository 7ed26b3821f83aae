// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// hostRange is pinned memory of the guest process that its kernels reach: mapped here at the guest's own address,
// so that device pointer and host pointer are one.
type hostRange struct {
	mapping *mapping
	address uint64 // of the first byte, as the guest knows it
	bytes   uint64
	base    uint64 // page-aligned range that is mapped and registered
	size    uint64
	unmap   func()
}

// maxAddress bounds user addresses of x86-64 with four-level page tables.
const maxAddress = 1 << 47

// runHostRegister makes a mapping reachable for kernels: map id, address, bytes, flags.
func runHostRegister(w *Worker, c *call) gpubackend.Result {
	m := w.findMap(uint32(c.word(0)))
	address, bytes := c.word(1), c.word(2)
	if m == nil || w.hosts[m.id] != nil || m.flags&wire.MapFlagOneshot != 0 {
		return gpubackend.InvalidValue
	}
	if address != m.address || bytes != m.bytes || bytes == 0 || address >= maxAddress || bytes > maxAddress-address ||
		address%pageSize != m.offset {
		return gpubackend.InvalidValue
	}
	pieces, err := w.pieces(m.runs)
	if err != nil {
		return gpubackend.InvalidValue
	}
	h := &hostRange{mapping: m, address: address, bytes: bytes, base: address &^ (pageSize - 1)}
	mem, unmap, err := arena.Map(w.mem, pieces, uintptr(h.base))
	if err != nil {
		w.complain(err, "pinned memory has no place in the worker's address space")
		return gpubackend.OutOfMemory
	}
	h.size, h.unmap = uint64(len(mem)), unmap
	if result := w.driver.HostRegister(h.base, h.size, m.flags&wire.MapFlagWrite != 0); result != gpubackend.Success {
		unmap()
		return result
	}
	m.users++
	w.hosts[m.id] = h
	w.state.Count(handover.BytesMapped, bytes)
	return gpubackend.Success
}

// runHostUnregister undoes it and returns the mapping: map id.
func runHostUnregister(w *Worker, c *call) gpubackend.Result {
	id := uint32(c.word(0))
	h := w.hosts[id]
	if h == nil {
		return gpubackend.HostMemoryUnregistered
	}
	result := w.driver.HostUnregister(h.base, h.size)
	if result != gpubackend.Success && !result.Sticky() {
		return result
	}
	h.unmap()
	delete(w.hosts, id)
	h.mapping.users--
	w.giveMap(h.mapping)
	return result
}

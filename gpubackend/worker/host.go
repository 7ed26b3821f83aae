// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// hostRange is pinned memory of the guest process that its kernels reach: mapped here at the guest's own address,
// so that device pointer and host pointer are one.
type hostRange struct {
	mapping *mapping
	address uint64 // of the first byte, as the guest knows it
	bytes   uint64
	base    uint64 // page-aligned range that is mapped
	size    uint64
	mapped  []addresses.Range // what of it still is
	whole   *hostWhole
	places  int
}

// hostWhole is what the driver knows as one piece of registered memory: ranges, each where the one before it ends. A
// copy or fill that crossed from one registration to another would be refused.
type hostWhole struct {
	base, size uint64
	readOnly   bool              // one of the ranges is
	known      []addresses.Range // what the driver knows of it: all when it is complete, then what is kept
}

func (h *hostWhole) end() uint64 { return h.base + h.size }

// registered says whether the driver knows all of a piece of a mapping, at the guest's own address.
func (w *Worker) registered(m *mapping, offset, bytes uint64) bool {
	h := w.hosts[m.id]
	return h != nil && addresses.Of(m.address+offset, bytes).In(h.whole.known)
}

// maxAddress bounds user addresses of x86-64 with four-level page tables.
const maxAddress = 1 << 47

// runHostRegister makes a mapping reachable for kernels.
func (w *Worker) runHostRegister(c *call.Call, a command.HostRegister) gpubackend.Result {
	m, pieces, result := w.hostMapping(a.Map, a.Address, a.Bytes)
	if result != gpubackend.Success {
		return result
	}
	address, bytes := a.Address, a.Bytes
	h := &hostRange{mapping: m, address: address, bytes: bytes, base: address &^ (pageSize - 1), places: len(pieces)}
	if !w.places.Take(h.places) {
		return gpubackend.OutOfMemory
	}
	mem, unmap, err := arena.Map(pieces, uintptr(h.base), m.flags&wire.MapFlagWrite != 0)
	if err != nil {
		w.places.Give(h.places)
		w.complain(err, "pinned memory has no place in the worker's address space")
		return gpubackend.OutOfMemory
	}
	h.size = uint64(len(mem))
	h.mapped = []addresses.Range{addresses.Of(h.base, h.size)}
	if result := w.appendHost(h, a.More != 0); result != gpubackend.Success {
		w.places.Give(h.places)
		unmap()
		return result
	}
	m.users++
	w.hosts[m.id] = h
	w.state.Count(handover.BytesMapped, bytes)
	return gpubackend.Success
}

// hostMapping finds a mapping of which a command says id, address and bytes, and which is at no address yet.
func (w *Worker) hostMapping(id, address, bytes uint64) (*mapping, []guestmem.Run, gpubackend.Result) {
	m := w.findMap(uint32(id))
	if m == nil || w.hosts[m.id] != nil || m.shown > 0 || m.unmap || m.flags&wire.MapFlagOneshot != 0 {
		return nil, nil, gpubackend.InvalidValue
	}
	if address != m.address || bytes != m.bytes || bytes == 0 || address >= maxAddress || bytes > maxAddress-address ||
		address%pageSize != m.offset {
		return nil, nil, gpubackend.InvalidValue
	}
	pieces, err := w.pieces(m.runs)
	if err != nil {
		return nil, nil, gpubackend.InvalidValue
	}
	return m, pieces, gpubackend.Success
}

// appendHost adds a range to the whole that ends where it begins, or begins one. Unless there is more to come, the
// driver gets to know it.
func (w *Worker) appendHost(h *hostRange, more bool) gpubackend.Result {
	h.whole = w.growing[h.base]
	if h.whole == nil {
		h.whole = &hostWhole{base: h.base}
	}
	delete(w.growing, h.base)
	h.whole.size += h.size
	h.whole.readOnly = h.whole.readOnly || h.mapping.flags&wire.MapFlagWrite == 0
	if more {
		w.growing[h.whole.end()] = h.whole
		return gpubackend.Success
	}
	return w.announceHost(h.whole, addresses.Of(h.whole.base, h.whole.size))
}

// announceHost tells the driver of a range of a whole.
func (w *Worker) announceHost(h *hostWhole, r addresses.Range) gpubackend.Result {
	result := w.driver.HostRegister(r.Base, r.Bytes, !h.readOnly)
	if result == gpubackend.Success {
		h.known = append(h.known, r)
	}
	return result
}

// runHostUnregister undoes it and returns the mapping. The other ranges of the whole can't be reached any more either.
func (w *Worker) runHostUnregister(c *call.Call, a command.HostUnregister) gpubackend.Result {
	id := uint32(a.Map)
	h := w.hosts[id]
	if h == nil {
		return gpubackend.HostMemoryNotRegistered
	}
	result := w.forgetWhole(h.whole)
	if result != gpubackend.Success && !result.Sticky() {
		return result
	}
	h.keep(nil)
	w.places.Give(h.places)
	delete(w.hosts, id)
	h.mapping.users--
	w.giveMap(h.mapping)
	return result
}

// forgetWhole makes the driver forget a whole, registered or still growing.
func (w *Worker) forgetWhole(h *hostWhole) (result gpubackend.Result) {
	if w.growing[h.end()] == h {
		delete(w.growing, h.end())
	}
	for len(h.known) > 0 {
		r := h.known[0]
		if result = w.driver.HostUnregister(r.Base, r.Bytes); result != gpubackend.Success && !result.Sticky() {
			return result
		}
		h.known = h.known[1:]
	}
	return result
}

// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// pinned is pinned memory of the guest process that its kernels reach: it is mapped here at the
// guest's own address, so that device and host pointers are the same.
type pinned struct {
	mapping *maps.Map
	address uint64 // of the first byte, as the guest knows it
	bytes   uint64
	base    uint64 // page-aligned range that is mapped
	size    uint64
	mapped  []addresses.Range // the parts of it that still are
	whole   *whole
	places  int
}

// whole is one registration with the driver: ranges that follow one another. The driver refuses a
// copy or fill that crosses from one registration to another.
type whole struct {
	base, size uint64
	readOnly   bool // one of the ranges is
	// what the driver knows of it: everything when it is complete, then what is kept
	known []addresses.Range
}

func (h *whole) end() uint64 { return h.base + h.size }

// registered says whether the driver knows all of a part of a map, at the guest's own address.
func (s *HostMemory) registered(m *maps.Map, offset, bytes uint64) bool {
	h := s.ranges[m.ID]
	return h != nil && addresses.Of(m.Address+offset, bytes).In(h.whole.known)
}

// pin makes a mapping reachable for kernels.
func (s *HostMemory) pin(c *call.Call, a command.HostRegister) gpubackend.Result {
	m, files, result := s.find(a.Map, a.Address, a.Bytes)
	if result != gpubackend.Success {
		return result
	}
	address, bytes := a.Address, a.Bytes
	h := &pinned{mapping: m, address: address, bytes: bytes, base: address &^ (pageSize - 1),
		places: len(files)}
	if !s.Places.Take(h.places) {
		return gpubackend.OutOfMemory
	}
	mem, unmap, err := arena.Map(files, uintptr(h.base), m.Writable())
	if err != nil {
		s.Places.Give(h.places)
		s.Log.WithError(err).Warn("the addresses of pinned memory are in use in the worker")
		return gpubackend.OutOfMemory
	}
	h.size = uint64(len(mem))
	h.mapped = []addresses.Range{addresses.Of(h.base, h.size)}
	if result := s.append(h, a.More != 0); result != gpubackend.Success {
		s.Places.Give(h.places)
		unmap()
		return result
	}
	s.Maps.Use(m)
	s.ranges[m.ID] = h
	s.Mapped(bytes)
	return gpubackend.Success
}

// find finds a map by the id, address and bytes of a command; it must not be mapped yet.
func (s *HostMemory) find(
	id, address, bytes uint64,
) (*maps.Map, []guestmem.Run, gpubackend.Result) {
	m := s.Maps.Find(uint32(id))
	if m != nil && m.Missing() {
		return nil, nil, gpubackend.OutOfMemory
	}
	if m == nil || s.ranges[m.ID] != nil || s.shown[m] != nil || m.Leaving() || m.Oneshot() {
		return nil, nil, gpubackend.InvalidValue
	}
	if address != m.Address || bytes != m.Bytes || bytes == 0 || address >= gpubackend.Addresses ||
		bytes > gpubackend.Addresses-address ||
		address%pageSize != m.Offset {
		return nil, nil, gpubackend.InvalidValue
	}
	files, err := s.Files(m)
	if err != nil {
		return nil, nil, gpubackend.InvalidValue
	}
	return m, files, gpubackend.Success
}

// append adds a range to the whole that ends where it begins, or begins a new one. If it is
// complete, the driver is told.
func (s *HostMemory) append(h *pinned, more bool) gpubackend.Result {
	h.whole = s.growing[h.base]
	if h.whole == nil {
		h.whole = &whole{base: h.base}
	}
	delete(s.growing, h.base)
	h.whole.size += h.size
	h.whole.readOnly = h.whole.readOnly || !h.mapping.Writable()
	if more {
		s.growing[h.whole.end()] = h.whole
		return gpubackend.Success
	}
	return s.register(h.whole, addresses.Of(h.whole.base, h.whole.size))
}

// register tells the driver of a range of a whole.
func (s *HostMemory) register(h *whole, r addresses.Range) gpubackend.Result {
	result := s.Driver.HostRegister(r.Base, r.Bytes, !h.readOnly)
	if result == gpubackend.Success {
		h.known = append(h.known, r)
	}
	return result
}

// unpin undoes what pin did, and returns the map. The other ranges of the whole can't be reached
// any more either.
func (s *HostMemory) unpin(c *call.Call, a command.HostUnregister) gpubackend.Result {
	id := uint32(a.Map)
	h := s.ranges[id]
	if h == nil {
		return gpubackend.HostMemoryNotRegistered
	}
	result := s.forget(h.whole)
	if result != gpubackend.Success && !result.Sticky() {
		return result
	}
	h.keep(nil)
	s.Places.Give(h.places)
	delete(s.ranges, id)
	s.Maps.Drop(h.mapping)
	return result
}

// forget makes the driver forget a whole, registered or still growing.
func (s *HostMemory) forget(h *whole) (result gpubackend.Result) {
	if s.growing[h.end()] == h {
		delete(s.growing, h.end())
	}
	return s.unregister(h)
}

// unregister makes the driver forget a whole, which may go on growing.
func (s *HostMemory) unregister(h *whole) (result gpubackend.Result) {
	for len(h.known) > 0 {
		r := h.known[0]
		if result = s.Driver.HostUnregister(r.Base, r.Bytes); result != gpubackend.Success &&
			!result.Sticky() {
			return result
		}
		h.known = h.known[1:]
	}
	return result
}

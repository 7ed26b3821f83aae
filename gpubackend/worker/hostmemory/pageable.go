// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"slices"
	"sort"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// spans says which pages are at each address of ordinary memory. An address that was used stays in
// use; other pages replace those that the guest had there. Spans are sorted and don't overlap.
type spans []span

// span is a range of addresses. shown is what is mapped there, nil if nothing is.
type span struct {
	addresses.Range
	shown *shown
}

// shown is a map that is mapped at the guest's addresses.
type shown struct {
	m      *maps.Map
	bytes  uint64 // of it that are mapped at the guest's own addresses
	places int    // that these take
}

// first is the position of the first span that ends after addr.
func (p spans) first(addr uint64) int {
	return sort.Search(len(p), func(i int) bool { return p[i].End() > addr })
}

// gaps returns the parts of a range that are in no span.
func (p spans) gaps(r addresses.Range) (gaps []addresses.Range) {
	at := r.Base
	for _, s := range p[p.first(r.Base):] {
		if s.Base >= r.End() {
			break
		}
		if s.Base > at {
			gaps = append(gaps, addresses.Of(at, s.Base-at))
		}
		at = s.End()
	}
	if at < r.End() {
		gaps = append(gaps, addresses.Of(at, r.End()-at))
	}
	return gaps
}

// place puts a span in the place of others, and returns maps of which nothing is left.
func (p *spans) place(fresh span) (gone []*shown) {
	list := *p
	from := list.first(fresh.Base)
	to := from
	var kept []span
	for ; to < len(list) && list[to].Base < fresh.End(); to++ {
		old := list[to]
		if old.Base < fresh.Base {
			kept = append(kept, span{addresses.Of(old.Base, fresh.Base-old.Base), old.shown})
		}
		if x := old.shown; x != nil {
			if x.bytes -= min(old.End(), fresh.End()) - max(old.Base, fresh.Base); x.bytes == 0 {
				gone = append(gone, x)
			}
		}
	}
	kept = append(kept, fresh)
	if to > from {
		if last := list[to-1]; last.End() > fresh.End() {
			kept = append(kept, span{addresses.Of(fresh.End(), last.End()-fresh.End()), last.shown})
		}
	}
	*p = slices.Replace(list, from, to, kept...)
	return gone
}

// pageable shows a mapping at its own address.
func (s *HostMemory) pageable(c *call.Call, a command.HostPageable) gpubackend.Result {
	m, files, result := s.find(a.Map, a.Address, a.Bytes)
	if result != gpubackend.Success {
		return result
	}
	r := addresses.Range{Base: m.Address &^ (pageSize - 1)}
	for _, p := range files {
		r.Bytes += uint64(len(p.Bytes))
	}
	if r.Bytes > gpubackend.Addresses-r.Base {
		return gpubackend.InvalidValue
	}
	if result := s.takeAddresses(r); result != gpubackend.Success {
		return result
	}
	return s.show(m, r, files)
}

// takeAddresses reserves those parts of a range that aren't in use yet.
func (s *HostMemory) takeAddresses(r addresses.Range) gpubackend.Result {
	for _, gap := range s.spans.gaps(r) {
		if !s.Places.Take(addresses.OfReserved) {
			return gpubackend.OutOfMemory
		}
		undo, err := arena.Reserve(uintptr(gap.Base), uintptr(gap.Bytes))
		if err != nil {
			s.Places.Give(addresses.OfReserved)
			s.Log.WithError(err).Warn("the addresses of graphs' memory are in use in the worker")
			return gpubackend.OutOfMemory
		}
		if result := s.Driver.HostPageable(gap.Base, gap.Bytes); result != gpubackend.Success {
			undo()
			s.Places.Give(addresses.OfReserved)
			return result
		}
		s.spans.place(span{gap, nil})
	}
	return gpubackend.Success
}

// show maps a map over what is there. Maps of which nothing is left go back to the guest: from now
// on copies use the new pages.
func (s *HostMemory) show(m *maps.Map, r addresses.Range, files []guestmem.Run) gpubackend.Result {
	places := addresses.OfShown(len(files))
	if !s.Places.Take(places) {
		return gpubackend.OutOfMemory
	}
	s.Maps.Use(m)
	if err := arena.Put(files, uintptr(r.Base), m.Writable()); err != nil {
		// Some pages of both may be mapped: neither goes back.
		s.Log.WithError(err).Warn("map memory of graphs")
		return gpubackend.OutOfMemory
	}
	x := &shown{m: m, bytes: r.Bytes, places: places}
	s.shown[m] = x
	for _, old := range s.spans.place(span{r, x}) {
		delete(s.shown, old.m)
		s.Places.Give(old.places)
		s.Maps.Drop(old.m)
	}
	return gpubackend.Success
}

// AtAddress says whether the driver reaches memory of a map at the guest's own address.
func (s *HostMemory) AtAddress(m *maps.Map, r call.Reference) bool {
	return s.shown[m] != nil || s.registered(m, r.MapOffset(), r.Bytes)
}

// Holds says whether a map is pinned or shown.
func (s *HostMemory) Holds(m *maps.Map) bool { return s.ranges[m.ID] != nil || s.shown[m] != nil }

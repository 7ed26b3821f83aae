// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"sort"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// pageables is ordinary memory of the guest process that copies of graphs read and write each time they run, at the
// guest's own addresses: which pages are there at each of them. An address that was used stays in use; other pages take
// the place of those that the guest had there before. Sorted, none overlapping another.
type pageables []span

// span is a range of addresses. mapping is what is mapped there, nil if nothing is.
type span struct {
	addresses.Range
	mapping *mapping
}

// first is the position of the first span that ends behind addr.
func (p pageables) first(addr uint64) int {
	return sort.Search(len(p), func(i int) bool { return p[i].End() > addr })
}

// gaps returns the parts of a range that are in no span.
func (p pageables) gaps(r addresses.Range) (gaps []addresses.Range) {
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

// place puts a span in place of what is there, and returns the mappings of which nothing is left.
func (p *pageables) place(fresh span) (gone []*mapping) {
	list := *p
	from := list.first(fresh.Base)
	to := from
	var kept []span
	for ; to < len(list) && list[to].Base < fresh.End(); to++ {
		old := list[to]
		if old.Base < fresh.Base {
			kept = append(kept, span{addresses.Of(old.Base, fresh.Base-old.Base), old.mapping})
		}
		if m := old.mapping; m != nil {
			if m.shown -= min(old.End(), fresh.End()) - max(old.Base, fresh.Base); m.shown == 0 {
				gone = append(gone, m)
			}
		}
	}
	kept = append(kept, fresh)
	if to > from {
		if last := list[to-1]; last.End() > fresh.End() {
			kept = append(kept, span{addresses.Of(fresh.End(), last.End()-fresh.End()), last.mapping})
		}
	}
	*p = slices.Replace(list, from, to, kept...)
	return gone
}

// runHostPageable shows a mapping at its own address.
func (w *Worker) runHostPageable(c *call.Call, a command.HostPageable) gpubackend.Result {
	m, pieces, result := w.hostMapping(a.Map, a.Address, a.Bytes)
	if result != gpubackend.Success {
		return result
	}
	r := addresses.Range{Base: m.address &^ (pageSize - 1)}
	for _, p := range pieces {
		r.Bytes += uint64(len(p.Bytes))
	}
	if r.Bytes > maxAddress-r.Base {
		return gpubackend.InvalidValue
	}
	if result := w.takeAddresses(r); result != gpubackend.Success {
		return result
	}
	return w.show(m, r, pieces)
}

// takeAddresses reserves what isn't in use yet of a range.
func (w *Worker) takeAddresses(r addresses.Range) gpubackend.Result {
	for _, gap := range w.pageables.gaps(r) {
		if !w.places.Take(addresses.OfReserved) {
			return gpubackend.OutOfMemory
		}
		undo, err := arena.Reserve(uintptr(gap.Base), uintptr(gap.Bytes))
		if err != nil {
			w.places.Give(addresses.OfReserved)
			w.complain(err, "memory of graphs has no place in the worker's address space")
			return gpubackend.OutOfMemory
		}
		if result := w.driver.HostPageable(gap.Base, gap.Bytes); result != gpubackend.Success {
			undo()
			w.places.Give(addresses.OfReserved)
			return result
		}
		w.pageables.place(span{gap, nil})
	}
	return gpubackend.Success
}

// show maps a mapping over what is there. Mappings of which nothing is left go back to the guest: what copies on from
// here on copies from and to the new pages.
func (w *Worker) show(m *mapping, r addresses.Range, pieces []guestmem.Run) gpubackend.Result {
	places := addresses.OfShown(len(pieces))
	if !w.places.Take(places) {
		return gpubackend.OutOfMemory
	}
	m.users++
	if err := arena.Put(pieces, uintptr(r.Base), m.flags&wire.MapFlagWrite != 0); err != nil {
		// Some of both may be there: neither goes back.
		w.complain(err, "map memory of graphs")
		return gpubackend.OutOfMemory
	}
	m.shown, m.places = r.Bytes, places
	for _, old := range w.pageables.place(span{r, m}) {
		old.users--
		w.places.Give(old.places)
		w.giveMap(old)
	}
	return gpubackend.Success
}

// isAtAddress says whether the driver reaches memory of a mapping's at the guest's own address.
func (w *Worker) isAtAddress(m *mapping, r call.Reference) bool {
	return m.shown > 0 || w.registered(m, r.MapOffset(), r.Bytes)
}

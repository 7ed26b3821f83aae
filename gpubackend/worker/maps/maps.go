// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Map is pinned pages of the guest process.
type Map struct {
	ID      uint32
	Head    uint16 // of the chain
	Bytes   uint64
	Address uint64 // guest-virtual
	Offset  uint64 // of the first byte in the runs
	Flags   uint32
	Runs    []wire.Run
	Voucher uint32 // the driver's for its pages; 0: none
	Kept    bool   // its chain went back when it was taken
	Counted uint64 // bytes of the host's memory that count for it
	Dirty   uint64 // the source's name for pages that the GPU may write to at any time; 0: none

	users   int
	leaving bool // to be returned when users is 0
}

// Writable says whether the device may write the pages.
func (m *Map) Writable() bool { return m.Flags&wire.MapFlagWrite != 0 }

// Reason is by what right a run of the map is mapped.
func (m *Map) Reason(run uint32) vouchers.Reason {
	return vouchers.Reason{Kind: vouchers.Pages, Chain: m.Voucher, Index: run}
}

// Oneshot says whether the map is for one command alone.
func (m *Map) Oneshot() bool { return m.Flags&wire.MapFlagOneshot != 0 }

// Missing says whether there was no host memory for the list of its pages. Such a map can only be
// given back.
func (m *Map) Missing() bool { return m.Kept && len(m.Runs) == 0 }

// Leaving says whether the map goes back when no use is left.
func (m *Map) Leaving() bool { return m.leaving }

// Users is how many uses there are.
func (m *Map) Users() int { return m.users }

// Slice appends the runs that hold n bytes at an offset from the map's first byte. The caller has
// checked that they are there.
func (m *Map) Slice(dst []wire.Run, offset, n uint64) []wire.Run {
	p := m.Place(offset, n)
	return m.SlicePlace(dst, p)
}

// Place is the place of n bytes at an offset from the map's first byte.
func (m *Map) Place(offset, n uint64) moves.Place {
	offset += m.Offset
	i := 0
	for i < len(m.Runs) && offset >= m.Runs[i].Bytes {
		offset -= m.Runs[i].Bytes
		i++
	}
	return moves.Place{Run: uint32(i), Offset: offset, Bytes: n}
}

// SlicePlace appends the runs that are in a place.
func (m *Map) SlicePlace(dst []wire.Run, p moves.Place) []wire.Run {
	for _, r := range m.Runs[p.Run:] {
		if p.Bytes == 0 {
			break
		}
		part := min(r.Bytes-p.Offset, p.Bytes)
		dst = append(dst, wire.Run{Address: r.Address + p.Offset, Bytes: part})
		p.Offset, p.Bytes = 0, p.Bytes-part
	}
	return dst
}

// Source is where maps come from, and the guest memory that they are in.
type Source interface {
	// Find returns an available map; nil if there is none with that id.
	Find(id uint32) *Map
	// Return gives a map back. Maps that aren't available are left alone.
	Return(m *Map)
	// Read and Write copy from and to parts of guest memory.
	Read(b []byte, parts []guestmem.Extent) error
	Write(b []byte, parts []guestmem.Extent) error
}

// Maps counts the uses of maps.
type Maps struct {
	source Source
	log    *logrus.Entry
}

// New returns a Maps.
func New(s Source, log *logrus.Entry) *Maps { return &Maps{s, log} }

// Find returns an available map; nil if there is none with that id.
func (s *Maps) Find(id uint32) *Map { return s.source.Find(id) }

// Named finds the map that a reference names and checks the range.
func (s *Maps) Named(r call.Reference, write bool) (*Map, gpubackend.Result) {
	m := s.source.Find(r.MapID())
	if m != nil && m.Missing() {
		return nil, gpubackend.OutOfMemory
	}
	if m == nil || r.MapOffset() > m.Bytes || r.Bytes > m.Bytes-r.MapOffset() {
		return nil, gpubackend.InvalidValue
	}
	if write && !m.Writable() {
		return nil, gpubackend.InvalidValue
	}
	return m, gpubackend.Success
}

// Use begins a use of a map.
func (s *Maps) Use(m *Map) { m.users++ }

// Release ends a use of a map. A map for one command goes back with its last use.
func (s *Maps) Release(m *Map) {
	m.users--
	if m.leaving || m.Oneshot() {
		s.Give(m)
	}
}

// Drop ends a use of a map, and gives the map back.
func (s *Maps) Drop(m *Map) {
	m.users--
	s.Give(m)
}

// Give returns a map as soon as nothing uses it.
func (s *Maps) Give(m *Map) {
	m.leaving = true
	if m.users == 0 {
		s.source.Return(m)
	}
}

// GiveUnused returns unused maps for one command that a failed command names: it may have been
// refused before these were looked at. Any word that looks like a reference counts as one, since
// all maps are this guest process's.
func (s *Maps) GiveUnused(c *call.Call, result gpubackend.Result) {
	if result == gpubackend.Success || result == gpubackend.NotReady {
		return
	}
	for _, word := range c.Command.Words[:c.Command.N] {
		r := call.ReferenceOf(word, 0)
		if r.Kind != wire.BufferMap {
			continue
		}
		if m := s.source.Find(r.MapID()); m != nil && m.users == 0 && m.Oneshot() {
			s.Give(m)
		}
	}
}

// named is what a reference names.
type named struct {
	s *Maps
	m *Map
	r call.Reference
}

// Pages finds what a reference of a call names.
func (s *Maps) Pages(r call.Reference, write bool) (call.Pages, gpubackend.Result) {
	m, result := s.Named(r, write)
	if result != gpubackend.Success {
		return nil, result
	}
	return named{s, m, r}, gpubackend.Success
}

// Read copies all of it. It is for arguments, not for payloads.
func (p named) Read(b []byte) gpubackend.Result {
	if err := p.each(b, p.s.source.Read); err != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// Write copies an answer there.
func (p named) Write(b []byte) {
	if err := p.each(b, p.s.source.Write); err != nil {
		p.s.log.WithError(err).Warn("write an answer")
	}
}

func (p named) each(b []byte, f func(b []byte, parts []guestmem.Extent) error) error {
	p.s.Use(p.m)
	defer p.s.Release(p.m)
	place := p.m.Place(p.r.MapOffset(), p.r.Bytes)
	var parts []guestmem.Extent
	for i, run := range p.m.SlicePlace(nil, place) {
		by := p.m.Reason(place.Run + uint32(i)).Right()
		parts = append(parts, guestmem.Extent{Addr: run.Address, Bytes: run.Bytes, By: by})
	}
	return f(b, parts)
}

// SPDX-License-Identifier: Apache-2.0

// Package addresses counts the mappings of the worker's address space that the guest process makes
// it have. A process can have so many only, and one that gets no more of them ends. Scattered pages
// of a guest take one for each run, what it reserves and maps one or two each.
//
// The worker's loop owns a Quota. Every part that maps something for the guest takes its places
// before and gives them back when it has unmapped it.
package addresses

import "github.com/paracuda/paracuda/gpubackend/proclimit"

// Quota is how many mappings the guest process has in this one, and may have.
type Quota struct {
	used, most int
	full       func(most int) // nil: nobody is to know, or knows
}

// NewPlaces leaves a quarter of what a process may have to other uses.
func NewPlaces() *Quota { return PlacesFor(proclimit.Mappings() / 4 * 3) }

// PlacesFor returns a Quota of that many mappings.
func PlacesFor(most int) *Quota { return &Quota{most: most} }

// Take counts n mappings, unless that is too many.
func (p *Quota) Take(n int) bool {
	if n > p.most-p.used {
		if p.full != nil {
			p.full(p.most)
			p.full = nil
		}
		return false
	}
	p.used += n
	return true
}

// WhenFull has tell called the first time that there are too many.
func (p *Quota) WhenFull(tell func(most int)) { p.full = tell }

// Give takes back what Take counted.
func (p *Quota) Give(n int) { p.used -= n }

// Used is how many are counted, and Most how many there may be.
func (p *Quota) Used() int { return p.used }

// Most is how many mappings there may be.
func (p *Quota) Most() int { return p.most }

// What mappings of the guest's own virtual memory management take: what lies in a reservation parts
// it.
const (
	OfReserved = 1
	OfMapped   = 2
)

// OfShown is what pieces take that are shown in place of others, one of which they may part.
func OfShown(pieces int) int { return pieces + 1 }

// Range is a range of addresses.
type Range struct{ Base, Bytes uint64 }

// End is the address behind a range.
func (r Range) End() uint64 { return r.Base + r.Bytes }

// In says whether a range lies in one of others.
func (r Range) In(list []Range) bool {
	for _, x := range list {
		if r.Base >= x.Base && r.Base-x.Base <= x.Bytes && r.Bytes <= x.Bytes-(r.Base-x.Base) {
			return true
		}
	}
	return false
}

// Of returns a range.
func Of(base, bytes uint64) Range { return Range{base, bytes} }

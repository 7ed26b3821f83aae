// SPDX-License-Identifier: Apache-2.0

// Package addresses counts the mappings in the worker's address space that the guest process
// causes. A process can have only so many, and ends when it gets no more. Scattered pages of a
// guest take one for each run; what it reserves and maps takes one or two each.
//
// The worker's loop owns a Quota. A room that maps something for the guest takes places first, and
// gives them back when it has unmapped that.
package addresses

import "github.com/paracuda/paracuda/gpubackend/proclimit"

// Quota is how many mappings the guest process has and may have here.
type Quota struct {
	used, most int
	full       func(most int) // nil: nobody is to be told, or was told already
}

// NewPlaces leaves a quarter of a process's mappings to other uses.
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

// WhenFull sets the function that is called the first time that there are too many.
func (p *Quota) WhenFull(tell func(most int)) { p.full = tell }

// Give takes back what Take counted.
func (p *Quota) Give(n int) { p.used -= n }

// Used is how many are counted, and Most how many there may be.
func (p *Quota) Used() int { return p.used }

// Most is how many mappings there may be.
func (p *Quota) Most() int { return p.most }

// What mappings of the guest's own virtual memory management take: one inside a reservation splits
// that.
const (
	OfReserved = 1
	OfMapped   = 2
)

// OfShown is what pieces take that replace others, one of which they may split.
func OfShown(pieces int) int { return pieces + 1 }

// Range is a range of addresses.
type Range struct{ Base, Bytes uint64 }

// End is the address after a range.
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

// SPDX-License-Identifier: Apache-2.0

package copyable

import (
	"slices"
	"sort"
)

// Span is a range of addresses.
type Span struct {
	Base, Bytes uint64
	Writable    bool
}

func (s Span) end() uint64 { return s.Base + s.Bytes }

// Spans is sorted; none overlaps another.
type Spans []Span

// first is the position of the first span that ends after addr.
func (s Spans) first(addr uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].end() > addr })
}

// Put enters a span in place of those that it overlaps.
func (s *Spans) Put(x Span) {
	from := s.first(x.Base)
	to := from
	for to < len(*s) && (*s)[to].Base < x.end() {
		to++
	}
	*s = slices.Replace(*s, from, to, x)
}

// Remove removes the span that begins at base.
func (s *Spans) Remove(base uint64) {
	if i := s.first(base); i < len(*s) && (*s)[i].Base == base {
		*s = slices.Delete(*s, i, i+1)
	}
}

// Cover says whether all of a range lies in spans, and may be written if it is to be.
func (s Spans) Cover(addr, bytes uint64, write bool) bool {
	for i := s.first(addr); i < len(s) && s[i].Base <= addr && (s[i].Writable || !write); i++ {
		n := s[i].end() - addr
		if n >= bytes {
			return true
		}
		addr, bytes = addr+n, bytes-n
	}
	return false
}

// SPDX-License-Identifier: Apache-2.0

package dirtylog

import "sync"

// Range is a range of guest-physical addresses.
type Range struct{ Addr, Bytes uint64 }

// Ranges are ranges that something may write to at any time unnoticed, as a GPU may to memory that
// it has mapped. All of them count as written for as long as they are here. The zero value is
// empty.
type Ranges struct {
	mu   sync.Mutex
	next uint64
	held map[uint64][]Range // guarded by mu
}

// Add adds ranges, until Drop is called with what Add returns. The slice is copied.
func (r *Ranges) Add(ranges []Range) (name uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = map[uint64][]Range{}
	}
	r.next++
	r.held[r.next] = append([]Range(nil), ranges...)
	return r.next
}

// Drop marks ranges for the last time, when nothing can write to them any more.
func (r *Ranges) Drop(name uint64, s *Switch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark(s.Log(), r.held[name])
	delete(r.held, name)
}

// MarkAll marks all ranges.
func (r *Ranges) MarkAll(l *Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ranges := range r.held {
		mark(l, ranges)
	}
}

func mark(l *Log, ranges []Range) {
	if l == nil {
		return
	}
	for _, x := range ranges {
		l.Mark(x.Addr, x.Bytes)
	}
}

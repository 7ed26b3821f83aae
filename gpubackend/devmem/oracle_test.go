// SPDX-License-Identifier: Apache-2.0

package devmem

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// slowHeap is what a heap must agree with: the live allocations in a map that every question walks.
type slowHeap struct {
	t     testing.TB
	heap  *Heap
	back  *fakeBacking
	live  map[uint64]uint64
	kinds map[uint64]ledger.Kind
	order []uint64
	held  *ledger.Account
}

func newSlowHeap(t testing.TB, limit uint64) *slowHeap {
	h, b := newTestHeap(t, 4*limit, limit)
	s := &slowHeap{
		t: t, heap: h, back: b, live: make(map[uint64]uint64), kinds: make(map[uint64]ledger.Kind),
		held: ledger.NewProcess().Account(1),
	}
	h.Count(s.held)
	return s
}

func (s *slowHeap) find(addr uint64) (base, size uint64, ok bool) {
	for a, n := range s.live {
		if addr >= a && addr-a < n {
			return a, n, true
		}
	}
	return 0, 0, false
}

// inside reports whether a segment of the backing holds the range.
func (s *slowHeap) inside(addr, bytes uint64) bool {
	for a, n := range s.back.segments {
		if addr >= a && addr+bytes <= a+n {
			return true
		}
	}
	return false
}

func (s *slowHeap) alloc(bytes uint64, own bool) {
	alloc, kind := s.heap.AllocAs, ledger.Kind(bytes%3)
	if own {
		alloc = s.heap.AllocSegment
	}
	addr, err := alloc(kind, bytes)
	if err != nil {
		if s.heap.Used() == 0 && bytes != 0 && roundUp(bytes, Granularity) <= s.heap.Limit() {
			s.t.Fatalf("Alloc(%d) with nothing in use: %v", bytes, err)
		}
		return
	}
	if addr%Alignment != 0 || !s.inside(addr, bytes) {
		s.t.Fatalf("Alloc(%d) = %#x: not aligned or not mapped", bytes, addr)
	}
	for a, n := range s.live {
		if addr < a+n && a < addr+bytes {
			s.t.Fatalf("Alloc(%d) = %#x overlaps %#x, %d bytes", bytes, addr, a, n)
		}
	}
	s.live[addr], s.kinds[addr] = bytes, kind
	s.order = append(s.order, addr)
}

func (s *slowHeap) free(i int) {
	addr := s.order[i]
	if err := s.heap.Free(addr); err != nil {
		s.t.Fatalf("Free(%#x): %v", addr, err)
	}
	delete(s.live, addr)
	s.order[i] = s.order[len(s.order)-1]
	s.order = s.order[:len(s.order)-1]
}

func (s *slowHeap) compare(addr uint64) {
	base, size, ok := s.find(addr)
	if b, n, o := s.heap.Find(addr); b != base || n != size || o != ok {
		s.t.Fatalf("Find(%#x) = %#x, %d, %v, want %#x, %d, %v", addr, b, n, o, base, size, ok)
	}
}

func (s *slowHeap) check() {
	if s.back.mapped() > s.heap.Limit() || s.heap.Len() != len(s.live) {
		s.t.Fatalf("%d bytes mapped, %d allocations, want %d", s.back.mapped(), s.heap.Len(),
			len(s.live))
	}
	var used uint64
	for a, n := range s.back.segments {
		for addr := range s.live {
			if addr >= a && addr < a+n {
				used += n
				break
			}
		}
	}
	if s.heap.Used() != used {
		s.t.Fatalf("Used() = %d, want %d", s.heap.Used(), used)
	}
	s.checkKinds()
}

// checkKinds: a segment of one allocation counts for what that is for, of the others what is
// allocated, and the rest is the window's.
func (s *slowHeap) checkKinds() {
	var want [ledger.Kinds]uint64
	rest := s.back.mapped()
	for addr, bytes := range s.live {
		if s.kinds[addr] == ledger.Window || !s.inside(addr, 1) {
			continue
		}
		counts := roundUp(bytes, Alignment)
		if !s.heap.segments.floor(key{hi: addr}).value.shared {
			counts = roundUp(bytes, Granularity)
		}
		want[s.kinds[addr]] += counts
		rest -= counts
	}
	want[ledger.Window] = rest
	for k, n := range want {
		if got := s.held.Held(ledger.Kind(k)); got != n {
			s.t.Fatalf("%d bytes count as %s, want %d", got, ledger.Names[k], n)
		}
	}
}

// awayAndBack has some segments leave, frees some allocations, and has what is left return.
func (s *slowHeap) awayAndBack(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	s.heap.Trim()
	all := s.heap.Segments()
	if len(all) != len(s.back.segments) {
		s.t.Fatalf("%d segments, mapped are %d", len(all), len(s.back.segments))
	}
	var away []Segment
	for _, p := range all {
		if s.back.segments[p.Address] != p.Bytes {
			s.t.Fatalf("a segment %+v, mapped is %#x", p, s.back.segments[p.Address])
		}
		if random.IntN(2) == 0 {
			continue
		}
		away = append(away, p)
		if err := s.heap.Leave(p.Address); err != nil {
			s.t.Fatal(err)
		}
		if s.heap.Leave(p.Address) == nil {
			s.t.Fatal("a segment leaves twice")
		}
	}
	for range min(len(s.order), random.IntN(4)) {
		s.free(random.IntN(len(s.order)))
	}
	s.checkKinds()
	if s.heap.away > 0 {
		if _, err := s.heap.Alloc(1); !errors.Is(err, ErrOutOfMemory) {
			s.t.Fatalf("allocated while segments are away: %v", err)
		}
	}
	for _, p := range away {
		err := s.heap.Return(p.Address)
		if there := s.anyIn(p); there != (err == nil) {
			s.t.Fatalf("return %+v, which has allocations: %v: %v", p, there, err)
		}
	}
	s.check()
}

// anyIn says whether a segment has an allocation.
func (s *slowHeap) anyIn(p Segment) bool {
	for addr := range s.live {
		if addr >= p.Address && addr < p.Address+p.Bytes {
			return true
		}
	}
	return false
}

// step does one thing that the number says.
func (s *slowHeap) step(op uint64) {
	kind, rest := op%8, op/8
	switch {
	case kind == 5 && rest%16 == 0:
		s.awayAndBack(rest)
	case kind < 3 && len(s.order) > 0:
		s.free(int(rest % uint64(len(s.order))))
	case kind == 3:
		s.alloc(rest%(20<<20), false)
	case kind == 4:
		s.alloc(rest%(5<<20), true)
	case kind == 5:
		s.compare(Base + rest%s.heap.Limit())
	default:
		s.alloc(rest%(64<<10)+1, false)
	}
}

func (s *slowHeap) finish() {
	for len(s.order) > 0 {
		s.free(0)
	}
	s.check()
	s.heap.Trim()
	if len(s.back.segments) != 0 {
		s.t.Fatalf("%d segments with nothing allocated", len(s.back.segments))
	}
	s.alloc(s.heap.Limit(), false)
	s.free(0)
}

func TestHeapAgreesWithSlowHeap(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newSlowHeap(t, 128<<20)
		for range 4000 {
			s.step(random.Uint64())
			if random.IntN(16) == 0 {
				s.check()
			}
		}
		s.finish()
	}
}

func FuzzHeap(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 6, 1, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0xfb, 0xff, 0xff, 0x07, 4, 0, 0xff, 0, 5, 0, 0, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		s := newSlowHeap(t, 64<<20)
		for ; len(ops) >= 4; ops = ops[4:] {
			s.step(uint64(ops[0]) | uint64(ops[1])<<8 | uint64(ops[2])<<16 | uint64(ops[3])<<24)
		}
		s.check()
		s.finish()
	})
}

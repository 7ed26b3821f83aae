// SPDX-License-Identifier: Apache-2.0

package devmem

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// A heap is saved as what lies where in its window. Numbers are little-endian and of 64 bits:
//
//	the window: address and size; how many segments there are, and how many allocations
//	each segment, by address: address, size, kind (8 bits), whether it is cut up (8), zero (48)
//	each allocation, by address: address, size that was asked for, its kind (8 bits), zero (56)
//
// The rest of the window is free. What is in the memory is saved by whoever can read it.
const (
	savedHead = 32
	savedItem = 24
)

// ErrSaved is wrapped by all errors that say what is wrong with a saved heap.
var ErrSaved = errors.New("the table of device memory")

// savedSegment and savedAllocation hold what can't be computed from the rest.
type (
	savedSegment struct {
		addr, size uint64
		kind       ledger.Kind
		shared     bool
	}
	savedAllocation struct {
		addr, size uint64
		kind       ledger.Kind
	}
)

// saved is a heap in the form in which it is written.
type saved struct {
	base, window uint64
	segments     []savedSegment
	allocations  []savedAllocation
}

// saved returns a heap in that form, without segments of some kinds.
func (h *Heap) saved(leaveOut func(ledger.Kind) bool) *saved {
	h.Trim()
	s := &saved{base: h.base, window: h.window}
	h.segments.root.each(func(n *node[segment]) {
		p := &n.value
		if !p.shared && leaveOut(p.kind) {
			return
		}
		s.segments = append(s.segments, savedSegment{n.key.hi, p.size, p.kind, p.shared})
	})
	h.live.root.each(func(n *node[allocation]) {
		p := h.segments.floor(key{hi: n.value.owner}).value
		if !p.shared && leaveOut(p.kind) {
			return
		}
		s.allocations = append(s.allocations,
			savedAllocation{n.key.hi, n.value.size, n.value.kind})
	})
	return s
}

// SavedBytes is how much Save writes at the most.
func (h *Heap) SavedBytes() uint64 {
	return savedHead + savedItem*uint64(h.segments.size+h.live.size)
}

// Save writes what lies where, also segments that are away. Segments of kinds that are to be left
// out are written as free.
func (h *Heap) Save(to io.Writer, leaveOut func(ledger.Kind) bool) error {
	s := h.saved(leaveOut)
	w := bufio.NewWriterSize(to, 64<<10)
	put := func(words ...uint64) {
		b := make([]byte, 0, savedHead)
		for _, x := range words {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		_, _ = w.Write(b) // Flush has its error
	}
	put(s.base, s.window, uint64(len(s.segments)), uint64(len(s.allocations)))
	for _, p := range s.segments {
		word := uint64(p.kind)
		if p.shared {
			word |= 1 << 8
		}
		put(p.addr, p.size, word)
	}
	for _, a := range s.allocations {
		put(a.addr, a.size, uint64(a.kind))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("save %w: %w", ErrSaved, err)
	}
	return nil
}

// words reads n words.
func words(from io.Reader, n int) (w [savedHead / 8]uint64, err error) {
	var b [savedHead]byte
	if _, err := io.ReadFull(from, b[:8*n]); err != nil {
		return w, fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	for i := range n {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return w, nil
}

// read reads what Save wrote. It allocates no more than a small multiple of what it has read.
func (s *saved) read(from io.Reader) error {
	from = bufio.NewReaderSize(from, 64<<10)
	head, err := words(from, savedHead/8)
	if err != nil {
		return err
	}
	s.base, s.window = head[0], head[1]
	for range head[2] {
		w, err := words(from, savedItem/8)
		if err != nil {
			return err
		}
		kind := w[2] & 0xff
		if kind >= uint64(ledger.Kinds) || w[2]>>8 > 1 {
			return wrong("has a segment of unknown kind %#x", w[2])
		}
		s.segments = append(s.segments,
			savedSegment{w[0], w[1], ledger.Kind(kind), w[2]>>8 == 1})
	}
	for range head[3] {
		w, err := words(from, savedItem/8)
		if err != nil {
			return err
		}
		if w[2] >= uint64(ledger.Kinds) {
			return wrong("has an allocation of unknown kind %#x", w[2])
		}
		s.allocations = append(s.allocations, savedAllocation{w[0], w[1], ledger.Kind(w[2])})
	}
	if _, err := io.ReadFull(from, make([]byte, 1)); !errors.Is(err, io.EOF) {
		return wrong("has bytes behind its end")
	}
	return nil
}

// check refuses what no heap can have saved.
func (s *saved) check() error {
	left := s.allocations
	end := s.base
	for _, p := range s.segments {
		if p.addr < end || p.addr%Granularity != 0 || p.size == 0 || p.size%Granularity != 0 ||
			p.addr-s.base > s.window || p.size > s.window-(p.addr-s.base) {
			return wrong("has a segment at %#x, of %#x bytes, that can't be there", p.addr, p.size)
		}
		end = p.addr + p.size
		n, err := p.fill(left)
		if err != nil {
			return err
		}
		left = left[n:]
	}
	if len(left) > 0 {
		return wrong("has an allocation at %#x, where no segment is", left[0].addr)
	}
	return nil
}

// fill says how many of the allocations are in a segment: one if it isn't cut up.
func (p *savedSegment) fill(list []savedAllocation) (n int, err error) {
	at := p.addr
	for ; n < len(list) && list[n].addr < p.addr+p.size; n++ {
		a := list[n]
		room := p.addr + p.size - a.addr
		if a.addr < at || a.addr%Alignment != 0 || a.size == 0 || a.size > room ||
			p.shared && a.size > LargestShared {
			return 0, wrong("has an allocation at %#x, of %#x bytes, that can't be there", a.addr,
				a.size)
		}
		at = a.addr + roundUp(a.size, Alignment)
	}
	switch {
	case n == 0:
		return 0, wrong("has a segment at %#x with nothing in it", p.addr)
	case p.shared && p.kind != ledger.Window:
		return 0, wrong("has a segment at %#x that is cut up, of kind %d", p.addr, p.kind)
	case !p.shared && (n > 1 || list[0].addr != p.addr || list[0].kind != p.kind ||
		roundUp(list[0].size, Granularity) != p.size):
		return 0, wrong("has a segment at %#x that its allocation doesn't fill", p.addr)
	}
	return n, nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w %w", ErrSaved, fmt.Errorf(format, args...))
}

// Restoring is a heap that is being restored. All its allocations are where they were, and their
// segments are away until ReturnAll. Until Done has succeeded, Alloc gives out only what Next has
// announced, and the heap must be given up if anything fails.
type Restoring struct {
	heap *Heap
	left map[uint64]bool // allocations that nobody has asked for
	next []uint64
}

// Restore begins to turn h, which is empty, into the heap that was saved.
func Restore(h *Heap, from io.Reader) (*Restoring, error) {
	var s saved
	if err := s.read(from); err != nil {
		return nil, err
	}
	if h.segments.size > 0 || h.restoring != nil {
		return nil, wrong("comes to a heap that isn't empty")
	}
	if s.base != h.base || s.window != h.window {
		return nil, wrong("is for %#x bytes at %#x, here are %#x at %#x", s.window, s.base,
			h.window, h.base)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if h.host.Take(hostBytes*uint64(len(s.allocations))) != nil {
		return nil, wrong("has more allocations than there is host memory for (--set host-memory)")
	}
	h.fillWith(&s)
	r := &Restoring{heap: h, left: make(map[uint64]bool, len(s.allocations))}
	for _, a := range s.allocations {
		r.left[a.addr] = true
	}
	h.restoring = r
	return r, nil
}

// fillWith gives an empty heap what was saved.
func (h *Heap) fillWith(s *saved) {
	left, end := s.allocations, s.base
	h.addresses = ranges{}
	for _, p := range s.segments {
		h.addresses.gap(end, p.addr)
		end = p.addr + p.size
		h.segments.insert(key{hi: p.addr},
			segment{size: p.size, shared: p.shared, kind: p.kind, away: true})
		h.away++
		at := p.addr
		for ; len(left) > 0 && left[0].addr < end; left = left[1:] {
			a := left[0]
			h.live.insert(key{hi: a.addr}, allocation{a.size, p.addr, a.kind})
			if p.shared {
				h.space.gap(at, a.addr)
				at = a.addr + roundUp(a.size, Alignment)
			}
		}
		if p.shared {
			h.space.gap(at, end)
		}
	}
	h.addresses.gap(end, s.base+s.window)
}

// gap adds the range between two addresses, if it isn't empty.
func (r *ranges) gap(from, to uint64) {
	if from < to {
		r.insert(from, to-from)
	}
}

// Segments are those that were saved, all away: for ReturnAll.
func (r *Restoring) Segments() (list []Segment) {
	r.heap.segments.root.each(func(n *node[segment]) {
		list = append(list, Segment{n.key.hi, n.value.size, n.value.kind})
	})
	return list
}

// Next says which allocations are given out next, in this order, for requests of the same size and
// kind. Each must have been saved, and is given out once. Earlier announcements that nobody has
// asked for are forgotten.
func (r *Restoring) Next(addrs ...uint64) error {
	seen := make(map[uint64]bool, len(addrs))
	for _, addr := range addrs {
		if !r.left[addr] || seen[addr] {
			return wrong("has no allocation at %#x, or has it once, not twice", addr)
		}
		seen[addr] = true
	}
	r.next = append(r.next[:0], addrs...)
	return nil
}

// claim is Alloc while the heap is being restored, of an allocation that shares its segment or has
// its own.
func (r *Restoring) claim(k ledger.Kind, bytes uint64, shared bool) (uint64, error) {
	if len(r.next) == 0 {
		return 0, wrong("has no allocation of %#x bytes that was announced", bytes)
	}
	addr := r.next[0]
	a := r.heap.live.floor(key{hi: addr}).value
	if p := r.heap.segments.floor(key{hi: a.owner}).value; a.size != bytes || a.kind != k ||
		p.shared != shared {
		return 0, wrong("has %#x bytes of kind %d at %#x, not %#x of kind %d", a.size, a.kind,
			addr, bytes, k)
	}
	r.next = r.next[1:]
	delete(r.left, addr)
	return addr, nil
}

// Done says whether every allocation has been given out, and every segment has returned. From then
// on the heap gives out the addresses that the saved one would.
func (r *Restoring) Done() error {
	if len(r.left) > 0 {
		first := uint64(math.MaxUint64)
		for addr := range r.left {
			first = min(first, addr)
		}
		return wrong("has %d allocations that nobody has asked for, the first at %#x", len(r.left),
			first)
	}
	if r.heap.away > 0 {
		return wrong("has %d segments without memory", r.heap.away)
	}
	r.heap.restoring = nil
	return nil
}

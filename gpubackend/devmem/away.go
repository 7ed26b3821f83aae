// SPDX-License-Identifier: Apache-2.0

package devmem

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Segment is a mapped part of the window: its address, its size, and what it was taken for. One
// that is cut up was taken for the window; its allocations may count as something else.
type Segment struct {
	Address, Bytes uint64
	Kind           ledger.Kind
}

// Segments lists those that are mapped, by their addresses.
func (h *Heap) Segments() (list []Segment) {
	h.segments.root.each(func(n *node[segment]) {
		if !n.value.away {
			list = append(list, Segment{n.key.hi, n.value.size, n.value.kind})
		}
	})
	return list
}

// Leave gives the memory of a segment back to the backing, and no longer counts it. Its addresses
// stay, and so do the allocations in it, which may be freed. Nothing can be allocated until every
// segment is back.
func (h *Heap) Leave(addr uint64) error {
	n := h.mayLeave(addr)
	if n == nil {
		return fmt.Errorf("leave %#x: %w", addr, ErrNotAllocated)
	}
	h.backing.Unmap(addr, n.value.size)
	h.recount(n, func(a allocation) (from, to ledger.Kind) { return a.kind, ledger.Window })
	h.Uncharge(n.value.kind, n.value.size)
	n.value.away = true
	h.away++
	return nil
}

// mayLeave is the segment that begins at an address, if it is mapped and has allocations; or nil.
func (h *Heap) mayLeave(addr uint64) *node[segment] {
	n := h.segments.floor(key{hi: addr})
	if n == nil || n.key.hi != addr || n.value.away || addr == h.spare {
		return nil
	}
	return n
}

// Return is the reverse of Leave: what is in the memory is undefined. On an error the segment is
// still away.
func (h *Heap) Return(addr uint64) error {
	n := h.segments.floor(key{hi: addr})
	if n == nil || n.key.hi != addr || !n.value.away {
		return fmt.Errorf("return %#x: %w", addr, ErrNotAllocated)
	}
	if err := h.Charge(n.value.kind, n.value.size); err != nil {
		return err
	}
	if err := h.backing.Map(addr, n.value.size); err != nil {
		h.Uncharge(n.value.kind, n.value.size)
		return fmt.Errorf("map %d bytes: %w: %w", n.value.size, ErrOutOfMemory, err)
	}
	h.recount(n, func(a allocation) (from, to ledger.Kind) { return ledger.Window, a.kind })
	n.value.away = false
	h.away--
	return nil
}

// recount makes the allocations of a segment that is cut up count for something else.
func (h *Heap) recount(p *node[segment], kinds func(allocation) (from, to ledger.Kind)) {
	if !p.value.shared {
		return
	}
	h.live.root.eachIn(p.key.hi, p.key.hi+p.value.size, func(n *node[allocation]) {
		from, to := kinds(n.value)
		h.account.Move(from, to, roundUp(n.value.size, Alignment))
	})
}

// drop forgets a segment that is away.
func (h *Heap) drop(addr uint64, p segment) {
	h.segments.remove(key{hi: addr})
	h.addresses.give(addr, p.size, 0, ^uint64(0))
	h.away--
}

// LeaveAll makes segments leave, which are given by their addresses: all, or none if one can't. of
// is the heap of an address, or nil.
func LeaveAll(of func(addr uint64) *Heap, addrs []uint64) error {
	for i, addr := range addrs {
		h := of(addr)
		if h == nil || i > 0 && addr <= addrs[i-1] || h.mayLeave(addr) == nil {
			return fmt.Errorf("leave %#x: %w", addr, ErrNotAllocated)
		}
	}
	for _, addr := range addrs {
		_ = of(addr).Leave(addr) // as was just seen
	}
	return nil
}

// ReturnAll makes segments return: all, or none if one can't.
func ReturnAll(of func(addr uint64) *Heap, addrs []uint64) error {
	for i, addr := range addrs {
		h, err := of(addr), fmt.Errorf("return %#x: %w", addr, ErrNotAllocated)
		if h != nil {
			err = h.Return(addr)
		}
		if err != nil {
			for _, back := range addrs[:i] {
				_ = of(back).Leave(back) // it has just returned
			}
			return err
		}
	}
	return nil
}

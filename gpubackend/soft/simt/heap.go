// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"sort"
	"sync"
)

// A Heap serves a kernel's malloc and free from a range of device memory. It
// outlives launches: a block allocated by one kernel may be freed by another.
type Heap struct {
	mu   sync.Mutex
	free []span
	used map[uint64]uint64
}

type span struct{ base, size uint64 }

const heapAlign = 16

// NewHeap returns a heap over the size bytes of device memory at base.
func NewHeap(base, size uint64) *Heap {
	return &Heap{free: []span{{base, size &^ (heapAlign - 1)}}, used: make(map[uint64]uint64)}
}

// Malloc returns the address of size bytes, aligned to 16, or 0.
func (h *Heap) Malloc(size uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if size == 0 || size > 1<<62 {
		return 0
	}
	size = (size + heapAlign - 1) &^ (heapAlign - 1)
	for i := range h.free {
		s := &h.free[i]
		if s.size < size {
			continue
		}
		addr := s.base
		s.base += size
		s.size -= size
		if s.size == 0 {
			h.free = append(h.free[:i], h.free[i+1:]...)
		}
		h.used[addr] = size
		return addr
	}
	return 0
}

// Free gives back what Malloc returned; it reports false for anything else.
func (h *Heap) Free(addr uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	size, ok := h.used[addr]
	if !ok {
		return false
	}
	delete(h.used, addr)
	i := sort.Search(len(h.free), func(i int) bool { return h.free[i].base > addr })
	h.free = append(h.free, span{})
	copy(h.free[i+1:], h.free[i:])
	h.free[i] = span{addr, size}
	h.join(i)
	if i > 0 {
		h.join(i - 1)
	}
	return true
}

// join unites free span i with the next one when they touch.
func (h *Heap) join(i int) {
	if i+1 >= len(h.free) || h.free[i].base+h.free[i].size != h.free[i+1].base {
		return
	}
	h.free[i].size += h.free[i+1].size
	h.free = append(h.free[:i+1], h.free[i+2:]...)
}

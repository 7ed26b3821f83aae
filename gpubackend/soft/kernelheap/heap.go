// SPDX-License-Identifier: Apache-2.0

// Package kernelheap serves malloc of kernels from a range of device memory. It keeps none of its
// own records there, as kernels may write to it. Any goroutine may use a Heap.
package kernelheap

import (
	"sort"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// A Heap serves a kernel's malloc and free from a range of device memory. It
// outlives launches: what one kernel allocates may be freed by another.
type Heap struct {
	mu   sync.Mutex
	free []span
	used map[uint64]uint64
	host *budget.Account
}

type span struct{ base, size uint64 }

const align = 16

// allocationBytes is what an allocation counts for of the host's memory.
const allocationBytes = 128

// New returns a heap over the size bytes of device memory at base. Its records are counted by host.
func New(base, size uint64, host *budget.Budget) *Heap {
	return &Heap{free: []span{{base, size &^ (align - 1)}}, used: make(map[uint64]uint64),
		host: host.Open()}
}

// Close gives up the host's memory. No kernel uses the heap any more.
func (h *Heap) Close() { h.host.Close() }

// Malloc returns the address of size bytes, aligned to 16, or 0.
func (h *Heap) Malloc(size uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if size == 0 || size > 1<<62 {
		return 0
	}
	size = (size + align - 1) &^ (align - 1)
	for i := range h.free {
		s := &h.free[i]
		if s.size < size {
			continue
		}
		if h.host.Take(allocationBytes) != nil {
			return 0
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
	h.host.Give(allocationBytes)
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

// Len is how many allocations there are.
func (h *Heap) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.used)
}

// join unites free span i with the next one when they touch.
func (h *Heap) join(i int) {
	if i+1 >= len(h.free) || h.free[i].base+h.free[i].size != h.free[i+1].base {
		return
	}
	h.free[i].size += h.free[i+1].size
	h.free = append(h.free[:i+1], h.free[i+2:]...)
}

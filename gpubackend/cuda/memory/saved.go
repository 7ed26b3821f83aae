// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/devmem/layout"
)

// allHeaps are the heaps of all GPUs. They have got back all that was freed, as everything is idle.
func (m *Memory) allHeaps() (list []*devmem.Heap) {
	for c := range m.freed {
		m.takeBack(c)
	}
	for i := range m.heaps {
		list = append(list, m.heaps[i].Heap)
	}
	return list
}

// SaveLayout implements gpubackend.Driver.
func (m *Memory) SaveLayout(to io.Writer) error { return layout.Save(m.allHeaps(), to) }

// RestoreLayout implements gpubackend.Driver. There is no context yet: memory needs none.
func (m *Memory) RestoreLayout(from io.Reader) error {
	return m.restorer.Begin(m.allHeaps(), m.heapAt, from)
}

// LayoutRestored implements gpubackend.Driver.
func (m *Memory) LayoutRestored() error { return m.restorer.End() }

// Allocated implements gpubackend.Driver.
func (m *Memory) Allocated() (list []gpubackend.Allocation) {
	for addr, c := range m.owners {
		_, bytes, _ := m.heaps[c.GPU].Find(addr)
		list = append(list, gpubackend.Allocation{Address: addr, Bytes: bytes, Context: c.Handle})
	}
	return list
}

// TakeAllocation implements gpubackend.Driver.
func (m *Memory) TakeAllocation(a gpubackend.Allocation) gpubackend.Result {
	if m.restorer.Next(a.Address) != nil {
		return gpubackend.InvalidValue
	}
	_, r := m.MemAlloc(a.Bytes)
	return r
}

// Elsewhere says whether device memory isn't at its usual addresses: another process couldn't have
// it at the same ones.
func (m *Memory) Elsewhere() bool {
	for i := range m.heaps {
		if m.heaps[i].base != devmem.Base+uint64(i)*m.window {
			return true
		}
	}
	return false
}

// Backed says whether an address is in an allocation, or in a mapping of memory of this process.
func (m *Memory) Backed(addr uint64) bool {
	if m.mapping.Cover(addr, 1, false) {
		return true
	}
	h := m.heapAt(addr)
	if h == nil {
		return false
	}
	_, _, ok := h.Find(addr)
	return ok
}

// Strange is how many allocations there are that are neither of MemAlloc, nor of CreateMemory, nor
// of other processes, nor of code, nor the mover's.
func (m *Memory) Strange() int {
	n := layout.Allocations(m.allHeaps()) - len(m.owners) - len(m.variables)
	for i := range m.heaps {
		n -= len(m.heaps[i].backing.created) + len(m.heaps[i].backing.foreign)
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem/layout"
)

// SaveLayout implements gpubackend.Driver.
func (m *Memory) SaveLayout(to io.Writer) error {
	m.Reclaim()
	return layout.Save(m.space.Heaps(), to)
}

// RestoreLayout implements gpubackend.Driver.
func (m *Memory) RestoreLayout(from io.Reader) error {
	return m.restorer.Begin(m.space.Heaps(), m.space.HeapOf, from)
}

// LayoutRestored implements gpubackend.Driver.
func (m *Memory) LayoutRestored() error { return m.restorer.End() }

// Allocated implements gpubackend.Driver.
func (m *Memory) Allocated() (list []gpubackend.Allocation) {
	for addr, a := range m.allocations {
		list = append(list,
			gpubackend.Allocation{Address: addr, Bytes: a.bytes, Context: a.ctx.Handle()})
	}
	return list
}

// TakeAllocation implements gpubackend.Driver.
func (m *Memory) TakeAllocation(a gpubackend.Allocation) gpubackend.Result {
	if err := m.PlaceNext(a.Address); err != nil {
		return gpubackend.InvalidValue
	}
	_, result := m.MemAlloc(a.Bytes)
	return result
}

// PlaceNext says where the next allocation goes, while the layout is restored.
func (m *Memory) PlaceNext(addr uint64) error { return m.restorer.Next(addr) }

// Strange counts the allocations that are neither MemAlloc's, nor CreateMemory's, nor the mover's,
// nor among so many others.
func (m *Memory) Strange(others int) int {
	m.Reclaim()
	return layout.Allocations(m.space.Heaps()) - len(m.allocations) - len(m.created) - others
}

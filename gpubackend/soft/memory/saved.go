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
func (m *Memory) RestoreLayout(from io.Reader) (err error) {
	m.restoring, err = layout.Restore(m.space.Heaps(), m.space.HeapOf, from)
	return err
}

// LayoutRestored implements gpubackend.Driver.
func (m *Memory) LayoutRestored() error {
	if err := m.restoring.Done(); err != nil {
		return err
	}
	m.restoring = nil
	return nil
}

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

// PlaceNext says where the next allocation is that is made while the layout is restored.
func (m *Memory) PlaceNext(addr uint64) error { return m.restoring.Next(addr) }

// Strange is how many allocations there are that aren't of MemAlloc, the mover's or so many others.
func (m *Memory) Strange(others int) int {
	m.Reclaim()
	all := -len(m.allocations) - others
	for _, h := range m.space.Heaps() {
		all += h.Len()
		for _, s := range h.Segments() {
			if layout.LeftOut(s.Kind) {
				all--
			}
		}
	}
	return all
}

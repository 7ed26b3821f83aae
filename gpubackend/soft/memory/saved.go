// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"io"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem/layout"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// errBusy says that work goes on.
var errBusy = errors.New("save the memory: it is used until a host function returns")

// SaveLayout implements gpubackend.Driver.
func (m *Memory) SaveLayout(to io.Writer) error {
	m.Reclaim()
	for m.awaitFreed() {
		m.Reclaim()
	}
	if len(m.freeing) > 0 {
		return errBusy
	}
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

// TakeSegment maps a file, from start on, in a segment where another process's memory was.
func (m *Memory) TakeSegment(addr uint64, file int, start int64, bytes uint64) gpubackend.Result {
	if m.space == nil || !m.space.InWindow(addr) || m.PlaceNext(addr) != nil {
		return gpubackend.InvalidValue
	}
	heap := m.space.HeapOf(addr)
	if at, err := heap.AllocSegment(ledger.Mapped, bytes); err != nil || at != addr {
		return gpubackend.InvalidValue
	}
	var err error
	m.space.WithFile(file, start, func() { err = heap.Return(addr) })
	if err != nil {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// TakeOther takes over memory that Alloc has given. It says of which GPU it is.
func (m *Memory) TakeOther(
	k ledger.Kind, addr, bytes uint64,
) (gpu int, result gpubackend.Result) {
	if !m.space.InWindow(addr) || m.PlaceNext(addr) != nil {
		return 0, gpubackend.InvalidValue
	}
	heap := m.space.HeapOf(addr)
	if at, err := heap.AllocAs(k, bytes); err != nil || at != addr {
		return 0, gpubackend.InvalidValue
	}
	return slices.Index(m.space.Heaps(), heap), gpubackend.Success
}

// PlaceNext says where the next allocation goes, while the layout is restored.
func (m *Memory) PlaceNext(addr uint64) error { return m.restorer.Next(addr) }

// Strange counts the allocations that are neither MemAlloc's, nor CreateMemory's, nor other
// processes', nor the mover's, nor about to be free when work ends, nor among so many others.
func (m *Memory) Strange(others int) int {
	m.Reclaim()
	apart := len(m.created) + len(m.freeing) // and those of other processes, which never leave
	for _, h := range m.space.Heaps() {
		for _, s := range h.Segments() {
			_, freed := m.freeing[s.Address]
			if s.Kind == ledger.Mapped && !m.space.KeepsFile(s.Address) && !freed {
				apart++
			}
		}
	}
	return layout.Allocations(m.space.Heaps()) - len(m.allocations) - apart - others
}

// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// A layout is saved as how many GPUs there are, and for each how many bytes its heap takes, and
// those (package devmem); numbers are little-endian and of 64 bits. Memory that the mover has is
// left out: another one will get other memory.

// errLayout is wrapped by all errors that say what is wrong with a saved layout.
var errLayout = errors.New("the layout of device memory")

// staged says what is left out.
func staged(k ledger.Kind) bool { return k == ledger.Staging }

// SaveLayout implements gpubackend.Driver.
func (m *Memory) SaveLayout(to io.Writer) error {
	m.Reclaim()
	heaps := m.space.Heaps()
	list := binary.LittleEndian.AppendUint64(nil, uint64(len(heaps)))
	for _, h := range heaps {
		var b bytes.Buffer
		if err := h.Save(&b, staged); err != nil {
			return err
		}
		list = binary.LittleEndian.AppendUint64(list, uint64(b.Len()))
		list = append(list, b.Bytes()...)
	}
	if _, err := to.Write(list); err != nil {
		return fmt.Errorf("save %w: %w", errLayout, err)
	}
	return nil
}

// RestoreLayout implements gpubackend.Driver.
func (m *Memory) RestoreLayout(from io.Reader) error {
	n, err := number(from)
	switch {
	case err != nil:
		return err
	case m.restoring != nil || n != uint64(len(m.space.Heaps())):
		return fmt.Errorf("%w is for %d GPUs, not %d", errLayout, n, len(m.space.Heaps()))
	}
	for _, h := range m.space.Heaps() {
		if n, err = number(from); err != nil {
			return err
		}
		if err := m.restoreHeap(h, io.LimitReader(from, int64(min(n, 1<<40)))); err != nil {
			return err
		}
	}
	return nil
}

// restoreHeap makes a heap what was saved, and puts memory behind its addresses.
func (m *Memory) restoreHeap(h *devmem.Heap, from io.Reader) error {
	r, err := devmem.Restore(h, from)
	if err != nil {
		return err
	}
	m.restoring = append(m.restoring, r)
	var addrs []uint64
	for _, s := range r.Segments() {
		addrs = append(addrs, s.Address)
	}
	return devmem.ReturnAll(m.space.HeapOf, addrs)
}

func number(from io.Reader) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return 0, fmt.Errorf("read %w: %w", errLayout, err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// LayoutRestored implements gpubackend.Driver.
func (m *Memory) LayoutRestored() error {
	for _, r := range m.restoring {
		if err := r.Done(); err != nil {
			return err
		}
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
func (m *Memory) PlaceNext(addr uint64) error {
	for i, h := range m.space.Heaps() {
		if h == m.space.HeapOf(addr) && i < len(m.restoring) && m.space.InWindow(addr) {
			return m.restoring[i].Next(addr)
		}
	}
	return fmt.Errorf("%w has nothing at %#x", errLayout, addr)
}

// Strange is how many allocations there are that aren't of MemAlloc, the mover's or so many others.
func (m *Memory) Strange(others int) int {
	m.Reclaim()
	all := -len(m.allocations) - others
	for _, h := range m.space.Heaps() {
		all += h.Len()
		for _, s := range h.Segments() {
			if staged(s.Kind) {
				all--
			}
		}
	}
	return all
}

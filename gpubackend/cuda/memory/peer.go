// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Import maps memory that another process exported (Staging) and returns its address here. bytes is
// what that process asked for; the driver refuses a size that isn't the memory's. The caller keeps
// the file and may close it.
func (m *Memory) Import(fd int, bytes uint64) (uint64, error) {
	c := m.contexts.Current()
	if c == nil {
		return 0, fmt.Errorf("import memory: %w", gpubackend.InvalidContext.Err())
	}
	h := &m.heaps[c.GPU]
	h.backing.imported = fd
	addr, err := h.AllocSegment(ledger.Mapped, bytes)
	h.backing.imported = -1
	if err != nil {
		return 0, fmt.Errorf("import memory: %w", err)
	}
	return addr, nil
}

// TakeImport is Import while a layout is restored, at the address that the memory had.
func (m *Memory) TakeImport(addr uint64, fd int, bytes uint64) error {
	if err := m.restorer.Next(addr); err != nil {
		return fmt.Errorf("import memory again: %w", err)
	}
	h := &m.heaps[m.gpuAt(addr)]
	if _, err := h.AllocSegment(ledger.Mapped, bytes); err != nil {
		return fmt.Errorf("import memory again: %w", err)
	}
	h.backing.imported = fd
	err := h.Return(addr)
	h.backing.imported = -1
	if err != nil {
		return fmt.Errorf("import memory again: %w", err)
	}
	return nil
}

// Whose says which GPU has the memory of such a file; false if the driver doesn't say.
func (m *Memory) Whose(fd int) (gpu int, ok bool) {
	handle, r := m.calls.MemImport(fd)
	if r != gpubackend.Success {
		return 0, false
	}
	device, r := m.calls.MemDevice(handle)
	m.calls.MemRelease(handle)
	for i := range m.gpus.Len() {
		if r == gpubackend.Success && m.gpus.At(i).Native == device {
			return i, true
		}
	}
	return 0, false
}

// Unimport unmaps imported memory. No copy may be using it. No context needs to be current: that
// which had it may be gone.
func (m *Memory) Unimport(addr uint64) error {
	h := m.heapAt(addr)
	if h == nil {
		return fmt.Errorf("unmap imported memory: %w", gpubackend.InvalidValue.Err())
	}
	if err := h.Free(addr); err != nil {
		return fmt.Errorf("unmap imported memory: %w", err)
	}
	return nil
}

// HostMemory allocates host memory that kernels and copies reach at the returned address, which is
// that of the slice. It belongs to the current context.
func (m *Memory) HostMemory(bytes int) ([]byte, uint64, error) {
	addr, r := m.calls.MemHostAlloc(uint64(bytes))
	if r != gpubackend.Success {
		return nil, 0, fmt.Errorf("allocate %d bytes of pinned memory: %w", bytes, r.Err())
	}
	m.ranges.Host.Put(copyable.Span{Base: addr, Bytes: uint64(bytes), Writable: true})
	return cmem.At(addr, bytes), addr, nil
}

// FreeHostMemory frees what HostMemory allocated; the slice must not be used any more.
func (m *Memory) FreeHostMemory(addr uint64) error {
	m.ranges.Host.Remove(addr)
	if err := m.calls.MemFreeHost(addr).Err(); err != nil {
		return fmt.Errorf("free pinned memory: %w", err)
	}
	return nil
}

// Segment is the segment of memory around an address of the current context's GPU, and whether an
// allocation begins at the address.
func (m *Memory) Segment(addr uint64) (base, bytes uint64, allocated, ok bool) {
	h := &m.heaps[m.contexts.Current().GPU]
	base, bytes, ok = h.Heap.Segment(addr)
	return base, bytes, ok && h.Begins(addr), ok
}

// WatchSegments sets the function that is called with each segment before it is given up.
func (m *Memory) WatchSegments(gone func(addr, bytes uint64)) {
	for i := range m.heaps {
		m.heaps[i].Watch(gone)
	}
}

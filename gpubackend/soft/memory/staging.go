// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// Staging implements gpubackend.Driver. The file's first byte is the first of the memory.
func (m *Memory) Staging(bytes uint64) (addr uint64, fd int, result gpubackend.Result) {
	if m.space == nil {
		return 0, -1, gpubackend.NotInitialized
	}
	size := (bytes + devmem.Granularity - 1) &^ (devmem.Granularity - 1)
	if bytes == 0 || size < bytes || size > m.space.WindowSize() {
		return 0, -1, gpubackend.InvalidValue
	}
	gpu := m.options.Contexts.CurrentGPU()
	fd, err := memfd.Make(memfd.Form{Kind: memfd.Staging, GPU: uint8(m.numbers[gpu]), Bytes: size})
	if err != nil {
		return 0, -1, gpubackend.OutOfMemory
	}
	heap := m.space.Heap(gpu)
	heap.SetLimit(heap.Limit() + size) // the guest has not asked for it
	addr, result = m.AllocSegment(ledger.Staging, fd, 0, bytes)
	if result != gpubackend.Success {
		heap.SetLimit(heap.Limit() - size)
		unix.Close(fd)
		return 0, -1, result
	}
	m.staging[gpu] += size
	return addr, fd, gpubackend.Success
}

// Unstage implements gpubackend.Driver.
func (m *Memory) Unstage(addr uint64) {
	heap := m.space.HeapOf(addr)
	if base, size, ok := heap.Segment(addr); ok && base == addr && heap.Free(addr) == nil {
		heap.SetLimit(heap.Limit() - size)
		m.staging[slices.Index(m.space.Heaps(), heap)] -= size
	}
}

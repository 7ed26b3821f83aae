// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// Import maps memory that another process exported (Staging) and returns its address here. bytes is what that
// process asked for; the driver refuses a size that isn't the memory's. The caller keeps the file and may close it.
func (d *Device) Import(fd int, bytes uint64) (uint64, error) {
	if d.state == nil {
		return 0, fmt.Errorf("import memory: %w", gpubackend.InvalidContext.Err())
	}
	g := &d.gpus[d.state.gpu]
	g.backing.imported = fd
	addr, err := g.heap.AllocPiece(bytes)
	g.backing.imported = -1
	if err != nil {
		return 0, fmt.Errorf("import memory: %w", err)
	}
	return addr, nil
}

// Unimport unmaps imported memory. No copy may be using it.
func (d *Device) Unimport(addr uint64) error {
	if d.state == nil {
		return fmt.Errorf("unmap imported memory: %w", gpubackend.InvalidContext.Err())
	}
	if err := d.gpus[d.state.gpu].heap.Free(addr); err != nil {
		return fmt.Errorf("unmap imported memory: %w", err)
	}
	return nil
}

// HostMemory allocates host memory that kernels and copies reach at the returned address, which is that of the
// slice. It belongs to the current context.
func (d *Device) HostMemory(bytes int) ([]byte, uint64, error) {
	addr, r := d.MemHostAlloc(uint64(bytes))
	if r != gpubackend.Success {
		return nil, 0, fmt.Errorf("allocate %d bytes of pinned memory: %w", bytes, r.Err())
	}
	d.ranges.host.put(span{addr, uint64(bytes), true})
	return cmem.At(addr, bytes), addr, nil
}

// FreeHostMemory frees what HostMemory allocated; the slice must not be used any more.
func (d *Device) FreeHostMemory(addr uint64) error {
	d.ranges.host.remove(addr)
	if err := d.MemFreeHost(addr).Err(); err != nil {
		return fmt.Errorf("free pinned memory: %w", err)
	}
	return nil
}

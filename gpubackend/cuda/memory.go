// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// MemAlloc serves from the window.
func (d *Device) MemAlloc(bytes uint64) (uint64, gpubackend.Result) {
	if !d.usable() {
		return 0, gpubackend.InvalidContext
	}
	if bytes == 0 {
		return 0, gpubackend.InvalidValue
	}
	if dead := d.state.home().dead; dead != gpubackend.Success {
		return 0, dead
	}
	d.reclaim()
	heap := d.gpus[d.state.gpu].heap
	addr, err := heap.Alloc(bytes)
	if err != nil && d.reclaimAll() {
		addr, err = heap.Alloc(bytes)
	}
	if err != nil {
		if !errors.Is(err, devmem.ErrOutOfMemory) {
			d.log.WithError(err).WithField("bytes", bytes).Error("allocate device memory")
		}
		return 0, gpubackend.OutOfMemory
	}
	d.owners[addr] = d.state.home()
	return addr, gpubackend.Success
}

// MemFree gives memory back: at once when the context is known to be idle, otherwise when it is next seen idle.
func (d *Device) MemFree(addr uint64) gpubackend.Result {
	if !d.usable() {
		return gpubackend.InvalidContext
	}
	owner := d.owners[addr]
	if owner == nil {
		return d.freeOfGraph(addr)
	}
	delete(d.owners, addr)
	if d.idle() {
		return d.release(owner, addr)
	}
	d.state.freed = append(d.state.freed, freed{owner, addr})
	return gpubackend.Success
}

// freed is memory of owner that goes back to the heap when the context that freed it is idle.
type freed struct {
	owner *context
	addr  uint64
}

func (d *Device) release(owner *context, addr uint64) gpubackend.Result {
	if err := d.gpus[owner.gpu].heap.Free(addr); err != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// idle says whether no context has work in flight, as far as is known without asking.
func (d *Device) idle() bool {
	for _, c := range d.contexts {
		if c.work.busy() {
			return false
		}
	}
	return true
}

// reclaim takes back what was freed, if the work that was in flight then is done.
func (d *Device) reclaim() {
	if len(d.state.freed) == 0 || len(d.contexts) > 1 && !d.idle() {
		return
	}
	if d.query() == gpubackend.Success {
		d.takeBack(d.state)
	}
}

// reclaimAll is reclaim after waiting for the work, and takes from graphs what they don't use. It says whether there was
// anything to take back.
func (d *Device) reclaimAll() bool {
	trimmed := d.trimGraphs()
	return d.awaitFreed() || trimmed
}

func (d *Device) awaitFreed() bool {
	if len(d.state.freed) == 0 || len(d.capturing) > 0 {
		return false
	}
	if r := d.CtxSynchronize(); r != gpubackend.Success {
		d.failed(r)
		return false
	}
	d.takeBack(d.state)
	return true
}

// takeBack returns what was freed while c was busy.
func (d *Device) takeBack(c *context) {
	for _, f := range c.freed {
		d.release(f.owner, f.addr)
	}
	c.freed = c.freed[:0]
}

// MemGetInfo tells of the device, or of the part of it that the limit leaves.
func (d *Device) MemGetInfo() (free, total uint64, r gpubackend.Result) {
	free, total, r = d.calls.MemGetInfo()
	if r != gpubackend.Success || d.state == nil {
		return
	}
	if limit := d.options.MemoryLimit; limit != 0 {
		g := &d.gpus[d.state.gpu]
		total = min(total, limit)
		free = min(free, total-min(total, g.heap.Used()))
	}
	return
}

// Staging makes memory that the mover maps: a piece of its own, exported as a file.
func (d *Device) Staging(bytes uint64) (addr uint64, fd int, r gpubackend.Result) {
	if d.state == nil {
		return 0, -1, gpubackend.InvalidContext
	}
	d.reclaim()
	g := &d.gpus[d.state.gpu]
	g.backing.export = true
	addr, err := g.heap.AllocPiece(bytes)
	if err != nil && d.reclaimAll() {
		addr, err = g.heap.AllocPiece(bytes)
	}
	g.backing.export = false
	if err != nil {
		return 0, -1, gpubackend.OutOfMemory
	}
	return addr, g.backing.takeExported(), gpubackend.Success
}

// Unstage gives it back to the heap that it is of.
func (d *Device) Unstage(addr uint64) {
	for i := range d.gpus {
		if base, _, ok := d.gpus[i].heap.Piece(addr); ok && base == addr {
			_ = d.gpus[i].heap.Free(addr) // was allocated: the worker calls this once an address
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/pcie"
)

// windowBytes is the part of the window that each GPU has.
const windowBytes = devmem.Window

// gpu is one device with its memory.
type gpu struct {
	native           uint64             // CUdevice
	place            pcie.Address       // on the host's bus
	ahead            gpubackend.Context // primary context that Warm has retained and nobody asked for yet
	total            uint64
	threads          uint64 // that it can have at a time
	readOnlyRegister bool
	base             uint64
	heap             *devmem.Heap
	backing          *backing
	graphs           uint64 // what counts for memory of graphs
}

// reserveWindow reserves addresses for the memory of n devices and gives each its heap. It returns the base.
func (d *Device) reserveWindow(n int) (uint64, gpubackend.Result) {
	base, r := d.MemAddressReserve(uint64(n)*windowBytes, devmem.Base)
	if r != gpubackend.Success {
		return 0, r
	}
	if base != devmem.Base {
		d.log.WithField("base", base).Warn("device memory is not at its usual addresses")
	}
	for i := range d.gpus {
		g := &d.gpus[i]
		g.base = base + uint64(i)*windowBytes
		g.backing = &backing{driver: d.calls, device: g.native, exported: -1, imported: -1}
		heap, err := devmem.New(g.base, windowBytes, g.total, g.backing)
		if err != nil {
			d.log.WithError(err).Error("device memory")
			return 0, gpubackend.OutOfMemory
		}
		heap.Meter(d.options.HostMemory)
		g.heap = heap
	}
	return base, gpubackend.Success
}

func (g *gpu) close(l *driver.Driver) {
	if g.heap == nil {
		return
	}
	g.heap.Close()
	l.MemAddressFree(g.base, windowBytes)
}

// backing puts a device's memory under addresses of the window.
type backing struct {
	driver   *driver.Driver
	device   uint64
	export   bool // new memory is exported as a file
	exported int  // that file; -1 for none
	imported int  // file whose memory is mapped in place of new memory; -1 for none
}

// Map implements devmem.Backing.
func (b *backing) Map(addr, bytes uint64) error {
	handle, r := b.create(bytes, 0)
	if r != gpubackend.Success {
		return r.Err()
	}
	defer b.driver.MemRelease(handle) // the mapping keeps the memory
	if b.export {
		fd, r := b.driver.MemExport(handle)
		if r != gpubackend.Success {
			return fmt.Errorf("export: %w", r.Err())
		}
		b.exported = fd
	}
	if err := b.mapHandle(handle, addr, bytes).Err(); err != nil {
		if b.export {
			_ = unix.Close(b.takeExported())
		}
		return fmt.Errorf("map: %w", err)
	}
	return nil
}

// takeExported hands over the file of the memory mapped last.
func (b *backing) takeExported() int {
	fd := b.exported
	b.exported = -1
	return fd
}

// Unmap implements devmem.Backing.
func (b *backing) Unmap(addr, bytes uint64) { b.driver.MemUnmap(addr, bytes) }

// create makes memory of the device, or opens what another process made.
func (b *backing) create(bytes, compression uint64) (handle uint64, r gpubackend.Result) {
	if b.imported >= 0 {
		return b.driver.MemImport(b.imported)
	}
	return b.driver.MemCreate(bytes, b.device, compression)
}

// mapHandle maps memory at reserved addresses for kernels of the device.
func (b *backing) mapHandle(handle, addr, bytes uint64) gpubackend.Result {
	if r := b.driver.MemMap(addr, bytes, handle); r != gpubackend.Success {
		return r
	}
	r := b.driver.MemSetAccess(addr, bytes, b.device, gpubackend.AccessReadWrite)
	if r != gpubackend.Success {
		b.driver.MemUnmap(addr, bytes)
	}
	return r
}

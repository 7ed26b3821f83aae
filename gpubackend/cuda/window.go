// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
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

// Values of CUmemAllocationProp and CUmemAccessDesc.
const (
	allocationPinned   = 1
	locationDevice     = 1
	handlePosixFile    = 1
	accessReadWrite    = 3
	allocationPropSize = 32
	compressionAt      = 24 // in it
	accessDescSize     = 12
)

// reserveWindow reserves addresses for the memory of n devices and gives each its heap. It returns the base.
func (d *Device) reserveWindow(n int) (uint64, gpubackend.Result) {
	r := d.call(symMemAddressReserve, d.out(0), uint64(n)*windowBytes, 0, devmem.Base, 0)
	if r != gpubackend.Success {
		return 0, r
	}
	base := d.value(0)
	if base != devmem.Base {
		d.log.WithField("base", base).Warn("device memory is not at its usual addresses")
	}
	for i := range d.gpus {
		g := &d.gpus[i]
		g.base = base + uint64(i)*windowBytes
		g.backing = &backing{library: &d.library, device: g.native, exported: -1, imported: -1}
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

func (g *gpu) close(l *library) {
	if g.heap == nil {
		return
	}
	g.heap.Close()
	l.call(symMemAddressFree, g.base, windowBytes)
}

// backing puts a device's memory under addresses of the window.
type backing struct {
	library  *library
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
	defer b.library.call(symMemRelease, handle) // the mapping keeps the memory
	if b.export {
		if r := b.library.call(symMemExport, b.library.out(0), handle, handlePosixFile, 0); r != gpubackend.Success {
			return fmt.Errorf("export: %w", r.Err())
		}
		b.exported = int(int32(uint32(b.library.value(0))))
	}
	if err := b.library.mapHandle(handle, addr, bytes, b.device).Err(); err != nil {
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
func (b *backing) Unmap(addr, bytes uint64) { b.library.call(symMemUnmap, addr, bytes) }

// create makes memory of the device, or opens what another process made.
func (b *backing) create(bytes, compression uint64) (handle uint64, r gpubackend.Result) {
	if b.imported >= 0 {
		r = b.library.call(symMemImport, b.library.out(0), uint64(b.imported), handlePosixFile)
		return b.library.value(0), r
	}
	prop := allocate(allocationPropSize)
	defer prop.free()
	p := prop.bytes()
	binary.LittleEndian.PutUint32(p[0:], allocationPinned)
	binary.LittleEndian.PutUint32(p[4:], handlePosixFile) // another process of the guest may be given it
	binary.LittleEndian.PutUint32(p[8:], locationDevice)
	binary.LittleEndian.PutUint32(p[12:], uint32(b.device))
	p[compressionAt] = byte(compression)
	r = b.library.call(symMemCreate, b.library.out(0), bytes, prop.address(), 0)
	return b.library.value(0), r
}

// mapHandle maps memory at reserved addresses for kernels of the device.
func (l *library) mapHandle(handle, addr, bytes, device uint64) gpubackend.Result {
	if r := l.call(symMemMap, addr, bytes, 0, handle, 0); r != gpubackend.Success {
		return r
	}
	r := l.setAccess(addr, bytes, device, accessReadWrite)
	if r != gpubackend.Success {
		l.call(symMemUnmap, addr, bytes)
	}
	return r
}

// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// MemAddressReserve reserves addresses, at a wanted place if the driver can.
func (d Memory) MemAddressReserve(bytes, at uint64) (uint64, gpubackend.Result) {
	r := d.call(symMemAddressReserve, d.out(0), bytes, 0, at, 0)
	return d.value(0), r
}

// MemAddressFree gives them back.
func (d Memory) MemAddressFree(addr, bytes uint64) gpubackend.Result {
	return d.call(symMemAddressFree, addr, bytes)
}

// MemCreate makes memory of a GPU, which can be exported as a file.
func (d Memory) MemCreate(bytes, device, compression uint64) (handle uint64, r gpubackend.Result) {
	prop := cmem.Allocate(cudaabi.MemAllocationPropSize)
	defer prop.Free()
	p := cudaabi.MemAllocationProp(prop.Bytes())
	p.SetType(cudaabi.MemAllocationPinned)
	// It may be given to another process of the guest.
	p.SetRequestedHandleTypes(cudaabi.MemHandlePosixFileDescriptor)
	p.Location().SetType(cudaabi.MemLocationDevice)
	p.Location().SetID(int32(device))
	p.SetCompressionType(byte(compression))
	r = d.call(symMemCreate, d.out(0), bytes, prop.Address(), 0)
	return d.value(0), r
}

// MemRelease gives up a handle of memory, which mappings keep.
func (d Memory) MemRelease(handle uint64) gpubackend.Result {
	return d.call(symMemRelease, handle)
}

// MemRetain returns a handle of the memory that is mapped at an address.
func (d Memory) MemRetain(addr uint64) (handle uint64, r gpubackend.Result) {
	r = d.call(symMemRetain, d.out(0), addr)
	return d.value(0), r
}

// MemExport gives a file for memory, which the caller closes.
func (d Memory) MemExport(handle uint64) (fd int, r gpubackend.Result) {
	if r = d.call(symMemExport, d.out(0), handle, cudaabi.MemHandlePosixFileDescriptor,
		0); r != gpubackend.Success {
		return -1, r
	}
	return int(int32(uint32(d.value(0)))), r
}

// MemImport opens the memory of such a file, which the caller keeps.
func (d Memory) MemImport(fd int) (handle uint64, r gpubackend.Result) {
	r = d.call(symMemImport, d.out(0), uint64(fd), cudaabi.MemHandlePosixFileDescriptor)
	return d.value(0), r
}

// MemDevice is the device whose memory a handle names.
func (d Memory) MemDevice(handle uint64) (device uint64, r gpubackend.Result) {
	prop := cmem.Allocate(cudaabi.MemAllocationPropSize)
	defer prop.Free()
	r = d.call(symMemProperties, prop.Address(), handle)
	return uint64(uint32(cudaabi.MemAllocationProp(prop.Bytes()).Location().ID())), r
}

// MemMap maps memory at reserved addresses.
func (d Memory) MemMap(addr, bytes, handle uint64) gpubackend.Result {
	return d.call(symMemMap, addr, bytes, 0, handle, 0)
}

// MemUnmap undoes it.
func (d Memory) MemUnmap(addr, bytes uint64) gpubackend.Result {
	return d.call(symMemUnmap, addr, bytes)
}

// MemSetAccess sets a GPU's access to memory that is mapped.
func (d Memory) MemSetAccess(addr, bytes, device, access uint64) gpubackend.Result {
	desc := cmem.Allocate(cudaabi.MemAccessDescSize)
	defer desc.Free()
	p := cudaabi.MemAccessDesc(desc.Bytes())
	p.Location().SetType(cudaabi.MemLocationDevice)
	p.Location().SetID(int32(device))
	p.SetFlags(uint32(access))
	return d.call(symMemSetAccess, addr, bytes, desc.Address(), 1)
}

// MemFreeAsync frees memory of a graph in stream order.
func (d Memory) MemFreeAsync(addr uint64, s gpubackend.Stream) gpubackend.Result {
	return d.call(symMemFreeAsync, addr, uint64(s))
}

// MemHostAlloc allocates host memory that kernels reach.
func (d Memory) MemHostAlloc(bytes uint64) (addr uint64, r gpubackend.Result) {
	r = d.call(symMemHostAlloc, d.out(0), bytes,
		cudaabi.MemHostAllocPortable|cudaabi.MemHostAllocDevicemap)
	return d.value(0), r
}

// MemFreeHost frees it.
func (d Memory) MemFreeHost(addr uint64) gpubackend.Result { return d.call(symMemFreeHost, addr) }

// MemHostRegister makes memory of this process reachable for kernels.
func (d Memory) MemHostRegister(addr, bytes uint64, writable bool) gpubackend.Result {
	flags := uint64(cudaabi.MemHostRegisterPortable | cudaabi.MemHostRegisterDevicemap)
	if !writable {
		flags |= cudaabi.MemHostRegisterReadOnly
	}
	return d.call(symMemHostRegister, addr, bytes, flags)
}

// MemHostUnregister undoes it.
func (d Memory) MemHostUnregister(addr uint64) gpubackend.Result {
	return d.call(symMemHostUnregister, addr)
}

// PointerAttribute reads an attribute of an address.
func (d Memory) PointerAttribute(attribute, addr uint64) (uint64, gpubackend.Result) {
	r := d.call(symPointerAttribute, d.out(0), attribute, addr)
	return d.value(0), r
}

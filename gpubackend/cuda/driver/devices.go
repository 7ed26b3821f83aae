// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// DeviceGetCount is how many GPUs there are.
func (d GPUs) DeviceGetCount() (int, gpubackend.Result) {
	r := d.call(symDeviceGetCount, d.out(0))
	return int(d.value(0)), r
}

// DeviceGet returns the handle of GPU i.
func (d GPUs) DeviceGet(i int) (device uint64, r gpubackend.Result) {
	r = d.call(symDeviceGet, d.out(0), uint64(i))
	return d.value(0), r
}

// DeviceTotalMem is how much memory a GPU has.
func (d GPUs) DeviceTotalMem(device uint64) (uint64, gpubackend.Result) {
	r := d.call(symDeviceTotalMem, d.out(0), device)
	return d.value(0), r
}

// DeviceGetAttribute reads an attribute of a GPU.
func (d GPUs) DeviceGetAttribute(attribute int, device uint64) (int32, gpubackend.Result) {
	r := d.call(symDeviceGetAttribute, d.out(0), uint64(attribute), device)
	return int32(uint32(d.value(0))), r
}

// DeviceGetP2PAttribute reads an attribute of the link from a GPU to another.
func (d GPUs) DeviceGetP2PAttribute(attribute int, from, to uint64) (int32, gpubackend.Result) {
	r := d.call(symDeviceGetP2PAttribute, d.out(0), uint64(attribute), from, to)
	return int32(uint32(d.value(0))), r
}

// DeviceGetP2PAtomics is what the link from one GPU to another supports of each atomic operation,
// by CUDA's numbers; from CUDA 13 on.
func (d GPUs) DeviceGetP2PAtomics(from, to uint64) (of [wire.AtomicOperations]uint16,
	r gpubackend.Result) {
	const word = 4
	out, operations := cmem.Allocate(word*len(of)), cmem.Allocate(word*len(of))
	defer out.Free()
	defer operations.Free()
	for i := range of {
		binary.LittleEndian.PutUint32(operations.Bytes()[word*i:], uint32(i))
	}
	r = d.call(symDeviceGetP2PAtomics, out.Address(), operations.Address(), uint64(len(of)), from,
		to)
	for i := 0; r == gpubackend.Success && i < len(of); i++ {
		of[i] = uint16(binary.LittleEndian.Uint32(out.Bytes()[word*i:]))
	}
	return of, r
}

// DeviceGetName writes a GPU's name, which ends with a NUL.
func (d GPUs) DeviceGetName(name []byte, device uint64) gpubackend.Result {
	b := cmem.Allocate(len(name))
	defer b.Free()
	r := d.call(symDeviceGetName, b.Address(), uint64(b.Len()), device)
	if r == gpubackend.Success {
		copy(name, b.Bytes())
	}
	return r
}

// DeviceGetUUID writes the 16 bytes of a GPU's UUID.
func (d GPUs) DeviceGetUUID(uuid []byte, device uint64) gpubackend.Result {
	b := cmem.Allocate(16)
	defer b.Free()
	r := d.call(symDeviceGetUUID, b.Address(), device)
	if r == gpubackend.Success {
		copy(uuid, b.Bytes())
	}
	return r
}

// DeviceGetLUID writes the 8 bytes of a GPU's LUID, which is Windows's, and its mask.
func (d GPUs) DeviceGetLUID(luid []byte, device uint64) (mask uint32, r gpubackend.Result) {
	b := cmem.Allocate(8)
	defer b.Free()
	r = d.call(symDeviceGetLUID, b.Address(), d.out(0), device)
	copy(luid, b.Bytes())
	return uint32(d.value(0)), r
}

// DeviceGetGraphMemAttribute reads how much memory graphs have.
func (d GPUs) DeviceGetGraphMemAttribute(device, attribute uint64) (uint64, gpubackend.Result) {
	r := d.call(symDeviceGetGraphMemAttribute, device, attribute, d.out(0))
	return d.value(0), r
}

// DeviceSetGraphMemAttribute resets a high-water mark.
func (d GPUs) DeviceSetGraphMemAttribute(device, attribute, value uint64) gpubackend.Result {
	return d.call(symDeviceSetGraphMemAttribute, device, attribute, d.inOut(0, value))
}

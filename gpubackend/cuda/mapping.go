// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// guestMemory is what CreateMemory made or ImportMemory opened: its GPU and its size.
type guestMemory struct {
	gpu   int
	bytes uint64
	again int // times that the driver gave the same handle once more
}

// Reserve asks for addresses and takes no others.
func (d *Device) Reserve(addr, bytes uint64) gpubackend.Result {
	got, r := d.MemAddressReserve(bytes, addr)
	if r != gpubackend.Success {
		return r
	}
	if got != addr {
		d.MemAddressFree(got, bytes)
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// Unreserve gives them back.
func (d *Device) Unreserve(addr, bytes uint64) gpubackend.Result {
	return d.MemAddressFree(addr, bytes)
}

// CreateMemory makes memory that counts like that of the heap.
func (d *Device) CreateMemory(bytes, device, compression uint64) (gpubackend.Memory, gpubackend.Result) {
	i, ok := d.gpuOf(device)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	g := &d.gpus[i]
	if d.state != nil {
		d.reclaim()
	}
	if g.heap.Charge(bytes) != nil && !(d.trimGraphs() && g.heap.Charge(bytes) == nil) {
		return 0, gpubackend.OutOfMemory
	}
	h, r := g.backing.create(bytes, compression)
	if r == gpubackend.OutOfMemory && g.heap.Trim() {
		h, r = g.backing.create(bytes, compression)
	}
	if r != gpubackend.Success {
		g.heap.Uncharge(bytes)
		return 0, r
	}
	d.addMemory(h, guestMemory{gpu: i, bytes: bytes})
	return gpubackend.Memory(h), gpubackend.Success
}

func (d *Device) addMemory(handle uint64, m guestMemory) {
	if d.memories == nil {
		d.memories = map[gpubackend.Memory]guestMemory{}
	}
	d.memories[gpubackend.Memory(handle)] = m
}

// ExportMemory gives the driver's own file.
func (d *Device) ExportMemory(m gpubackend.Memory) (int, gpubackend.Result) {
	return d.MemExport(uint64(m))
}

// ImportMemory opens it in another process. A file that isn't the driver's is one of a worker that was taken over.
func (d *Device) ImportMemory(fd int, bytes, device uint64) (gpubackend.Memory, gpubackend.Result) {
	i, ok := d.gpuOf(device)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	heap := d.gpus[i].heap
	if heap.Charge(bytes) != nil {
		return 0, gpubackend.OutOfMemory
	}
	h, r := d.MemImport(fd)
	if r != gpubackend.Success {
		heap.Uncharge(bytes)
		return 0, r
	}
	m := gpubackend.Memory(h)
	if x, known := d.memories[m]; known { // memory counts once
		heap.Uncharge(bytes)
		x.again++
		d.memories[m] = x
		return m, r
	}
	d.addMemory(uint64(m), guestMemory{gpu: i, bytes: bytes})
	return m, r
}

// ReleaseMemory gives it back.
func (d *Device) ReleaseMemory(m gpubackend.Memory) gpubackend.Result {
	x, ok := d.memories[m]
	if !ok {
		return gpubackend.InvalidValue
	}
	r := d.MemRelease(uint64(m))
	if r == gpubackend.Success && x.again > 0 {
		x.again--
		d.memories[m] = x
		return r
	}
	if r == gpubackend.Success {
		delete(d.memories, m)
		d.gpus[x.gpu].heap.Uncharge(x.bytes)
	}
	return r
}

// MapMemory maps all of m.
func (d *Device) MapMemory(addr, bytes uint64, m gpubackend.Memory) gpubackend.Result {
	return d.MemMap(addr, bytes, uint64(m))
}

// UnmapMemory undoes it.
func (d *Device) UnmapMemory(addr, bytes uint64) gpubackend.Result {
	return d.MemUnmap(addr, bytes)
}

// Protect sets a device's access.
func (d *Device) Protect(addr, bytes, device, access uint64) gpubackend.Result {
	i, ok := d.gpuOf(device)
	if !ok {
		return gpubackend.InvalidDevice
	}
	return d.MemSetAccess(addr, bytes, d.gpus[i].native, access)
}

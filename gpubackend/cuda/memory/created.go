// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/paracuda/paracuda/gpubackend"

// created is memory of CreateMemory. It is a segment of the heap of its own, by whose address it is
// named. There it is mapped only from the first time that it is copied to be moved: that the guest
// has mapped it, or lets its GPU reach it, isn't certain. A kernel that guesses the address finds
// memory of its own program there.
type created struct {
	compression uint64
	handle      uint64              // of the driver
	shown       bool                // mapped in the window
	mappings    map[uint64]*mapping // by the guest's addresses
	result      gpubackend.Result   // of making it
}

// mapping is where the guest has mapped memory.
type mapping struct {
	bytes  uint64
	access map[uint64]uint64 // by the driver's number of the device
}

// makeCreated makes a segment's memory, and maps it where it was mapped when it left.
func (b *backing) makeCreated(c *created, addr, bytes uint64) gpubackend.Result {
	handle, r := b.create(bytes, c.compression)
	if r != gpubackend.Success {
		return r
	}
	c.handle, c.shown = handle, false
	b.hidden[addr] = bytes
	for at, x := range c.mappings {
		if r := b.remap(c, at, x); r != gpubackend.Success {
			b.endCreated(c, addr, bytes)
			return r
		}
	}
	return r
}

// remap maps memory for the guest once more.
func (b *backing) remap(c *created, at uint64, x *mapping) gpubackend.Result {
	r := b.calls.MemMap(at, x.bytes, c.handle)
	for device, access := range x.access {
		if r == gpubackend.Success {
			r = b.calls.MemSetAccess(at, x.bytes, device, access)
		}
	}
	return r
}

// endCreated gives the memory back to the driver: without a handle and a mapping others may have
// it. What isn't mapped the driver refuses to unmap.
func (b *backing) endCreated(c *created, addr, bytes uint64) {
	if c.shown {
		b.calls.MemUnmap(addr, bytes)
	}
	for at, x := range c.mappings {
		b.calls.MemUnmap(at, x.bytes)
	}
	b.calls.MemRelease(c.handle)
	c.handle, c.shown = 0, false
	delete(b.hidden, addr)
}

// show maps in the window what isn't there yet, so that the GPU can copy it.
func (b *backing) show() gpubackend.Result {
	for addr, bytes := range b.hidden {
		c := b.created[addr]
		if r := b.calls.MemMap(addr, bytes, c.handle); r != gpubackend.Success {
			return r
		}
		r := b.calls.MemSetAccess(addr, bytes, b.device, gpubackend.AccessReadWrite)
		if r != gpubackend.Success {
			b.calls.MemUnmap(addr, bytes)
			return r
		}
		c.shown = true
		delete(b.hidden, addr)
	}
	return gpubackend.Success
}

// making makes the heap's next segment memory of CreateMemory. On an error nothing is left of it.
func (b *backing) making(c *created, take func() (uint64, error)) (addr uint64, err error) {
	b.creating = c
	addr, err = take()
	b.creating = nil
	return addr, err
}

// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// heap has the memory of one GPU in the window.
type heap struct {
	*devmem.Heap
	base    uint64
	backing *backing
}

// Open reserves addresses for the memory of all GPUs and gives each its heap. It returns the base.
func (m *Memory) Open() (uint64, gpubackend.Result) {
	n := m.gpus.Len()
	m.window = devmem.WindowOf(n)
	base, r := m.calls.MemAddressReserve(uint64(n)*m.window, devmem.Base)
	if r != gpubackend.Success {
		return 0, r
	}
	if base != devmem.Base {
		m.options.Log.WithField("base", base).Warn("device memory is not at its usual addresses")
	}
	for i := range n {
		h := heap{
			base: base + uint64(i)*m.window,
			backing: &backing{calls: m.calls, device: m.gpus.At(i).Native, exported: -1,
				imported: -1, foreign: make(map[uint64]bool),
				created: make(map[uint64]*created), hidden: make(map[uint64]uint64)},
		}
		var err error
		if h.Heap, err = devmem.New(h.base, m.window, m.gpus.At(i).Total,
			h.backing); err != nil {
			m.options.Log.WithError(err).Error("device memory")
			return 0, gpubackend.OutOfMemory
		}
		h.Meter(m.options.Host)
		h.Count(m.options.Accounts.Account(m.gpus.At(i).ID))
		m.heaps = append(m.heaps, h)
	}
	m.ranges.SetWindow(base, m.window, n)
	return base, gpubackend.Success
}

// WindowBytes is the part of the window that each GPU has, once it is open.
func (m *Memory) WindowBytes() uint64 { return m.window }

// Close gives all of it back. No work may be in flight.
func (m *Memory) Close() {
	for i := range m.heaps {
		m.heaps[i].Close()
		m.calls.MemAddressFree(m.heaps[i].base, m.window)
	}
	m.heaps = nil
}

// backing puts memory of a device at addresses of the window.
type backing struct {
	calls    Calls
	device   uint64
	export   bool // new memory is exported as a file
	exported int  // that file; -1 for none
	imported int  // file whose memory is mapped in place of new memory; -1 for none

	peers   []uint64        // other devices whose kernels reach all that is mapped
	foreign map[uint64]bool // what is mapped of other processes' memory, by address

	created  map[uint64]*created // memory of CreateMemory, by the addresses of its segments
	hidden   map[uint64]uint64   // the sizes of those that aren't mapped there, likewise
	creating *created            // what the next segment is; nil: an ordinary one
}

// Map implements devmem.Backing.
func (b *backing) Map(addr, bytes uint64) error {
	if c := b.creating; c != nil {
		if c.result = b.makeCreated(c, addr, bytes); c.result == gpubackend.Success {
			b.created[addr] = c
		}
		return c.result.Err()
	}
	if c := b.created[addr]; c != nil {
		return b.makeCreated(c, addr, bytes).Err()
	}
	handle, r := b.create(bytes, 0)
	if r != gpubackend.Success {
		return r.Err()
	}
	defer b.calls.MemRelease(handle) // the mapping keeps the memory
	if b.export {
		fd, r := b.calls.MemExport(handle)
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
func (b *backing) Unmap(addr, bytes uint64) {
	if c := b.created[addr]; c != nil {
		b.endCreated(c, addr, bytes)
		return
	}
	b.calls.MemUnmap(addr, bytes)
	delete(b.foreign, addr)
}

// create makes memory of the device, or opens what another process made.
func (b *backing) create(bytes, compression uint64) (handle uint64, r gpubackend.Result) {
	if b.imported >= 0 {
		return b.calls.MemImport(b.imported)
	}
	return b.calls.MemCreate(bytes, b.device, compression)
}

// mapHandle maps memory at reserved addresses for kernels of the device, and of its peers. Memory
// of another process may be on a GPU that a peer doesn't reach.
func (b *backing) mapHandle(handle, addr, bytes uint64) gpubackend.Result {
	if r := b.calls.MemMap(addr, bytes, handle); r != gpubackend.Success {
		return r
	}
	foreign := b.imported >= 0
	r := b.calls.MemSetAccess(addr, bytes, b.device, gpubackend.AccessReadWrite)
	for _, peer := range b.peers {
		if r != gpubackend.Success {
			break
		}
		r = b.calls.MemSetAccess(addr, bytes, peer, gpubackend.AccessReadWrite)
		if foreign {
			r = gpubackend.Success
		}
	}
	if r != gpubackend.Success {
		b.calls.MemUnmap(addr, bytes)
		return r
	}
	if foreign {
		b.foreign[addr] = true
	}
	return r
}

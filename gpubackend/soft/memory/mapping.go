// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// physical is memory without an address: a file. What CreateMemory made is also a segment of the
// heap, by whose address it is named and copied; kernels don't look for it there.
type physical struct {
	file  int
	bytes uint64
	gpu   int
}

// newFile makes memory of a file that make gives, if there may be one more.
func (m *Memory) newFile(gpu, bytes uint64, make func() (int, error)) (*physical, error) {
	m.Reclaim()
	if m.files >= m.options.Files {
		return nil, devmem.ErrOutOfMemory
	}
	fd, err := make()
	if err != nil {
		return nil, err
	}
	m.files++
	return &physical{fd, bytes, int(gpu)}, nil
}

// drop closes the file of memory.
func (m *Memory) drop(p *physical) {
	unix.Close(p.file)
	m.files--
}

// newCreated makes memory that is to be a segment.
func (m *Memory) newCreated(device, bytes uint64) (*physical, error) {
	return m.newFile(device, bytes, func() (int, error) {
		return memfd.Make(memfd.Form{Kind: memfd.Created, GPU: uint8(m.numbers[device]),
			Bytes: bytes})
	})
}

// Reserve implements gpubackend.Driver.
func (m *Memory) Reserve(addr, bytes uint64) gpubackend.Result {
	if m.space == nil {
		return gpubackend.NotInitialized
	}
	if space.Reserve(addr, bytes) != nil {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// Unreserve implements gpubackend.Driver.
func (m *Memory) Unreserve(addr, bytes uint64) gpubackend.Result {
	space.Unreserve(addr, bytes)
	return gpubackend.Success
}

// CreateMemory implements gpubackend.Driver.
func (m *Memory) CreateMemory(bytes, device, _ uint64) (gpubackend.Memory, gpubackend.Result) {
	if result := m.options.Contexts.CheckDevice(device); result != gpubackend.Success {
		return 0, result
	}
	p, err := m.newCreated(device, bytes)
	if err != nil {
		return 0, gpubackend.OutOfMemory
	}
	var addr uint64
	m.space.WithFile(p.file, 0, func() {
		addr, err = m.space.Heap(p.gpu).AllocSegment(ledger.Mapped, bytes)
	})
	if err != nil {
		m.drop(p)
		return 0, gpubackend.OutOfMemory
	}
	m.space.KeepFile(addr, p.file)
	m.created[addr] = p
	return gpubackend.Memory(addr), gpubackend.Success
}

// TakeMemory implements gpubackend.Driver.
func (m *Memory) TakeMemory(x gpubackend.CreatedMemory) gpubackend.Result {
	addr := uint64(x.Memory)
	if result := m.options.Contexts.CheckDevice(x.Device); result != gpubackend.Success {
		return result
	}
	heap := m.space.Heap(int(x.Device))
	if !m.space.InWindow(addr) || m.space.HeapOf(addr) != heap || m.PlaceNext(addr) != nil {
		return gpubackend.InvalidValue
	}
	if at, err := heap.AllocSegment(ledger.Mapped, x.Bytes); err != nil || at != addr {
		return gpubackend.InvalidValue
	}
	p, err := m.newCreated(x.Device, x.Bytes)
	if err != nil {
		return gpubackend.OutOfMemory
	}
	m.space.KeepFile(addr, p.file)
	if heap.Return(addr) != nil {
		m.space.ForgetFile(addr)
		m.drop(p)
		return gpubackend.OutOfMemory
	}
	m.created[addr] = p
	return gpubackend.Success
}

// find is memory that CreateMemory made or ImportMemory opened.
func (m *Memory) find(h gpubackend.Memory) (*physical, bool) {
	if p := m.created[uint64(h)]; p != nil {
		return p, true
	}
	return handles.Find[*physical](m.options.Handles, uint64(h))
}

// ReleaseMemory implements gpubackend.Driver.
func (m *Memory) ReleaseMemory(h gpubackend.Memory) gpubackend.Result {
	p, ok := m.find(h)
	if !ok {
		return gpubackend.InvalidValue
	}
	addr := uint64(h)
	if m.created[addr] != nil {
		delete(m.created, addr)
		_ = m.space.Heap(p.gpu).Free(addr) // it is there
		m.space.ForgetFile(addr)
	} else {
		m.space.Heap(p.gpu).Uncharge(ledger.Mapped, p.bytes)
		m.options.Handles.Remove(addr)
	}
	m.drop(p)
	return gpubackend.Success
}

// ExportMemory implements gpubackend.Driver.
func (m *Memory) ExportMemory(h gpubackend.Memory) (int, gpubackend.Result) {
	p, ok := m.find(h)
	if !ok {
		return -1, gpubackend.InvalidValue
	}
	fd, err := unix.FcntlInt(uintptr(p.file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, gpubackend.OutOfMemory
	}
	return fd, gpubackend.Success
}

// ImportMemory implements gpubackend.Driver. The process that made the file may be hostile: the
// file's size must be sealed.
func (m *Memory) ImportMemory(fd int, bytes, device uint64) (gpubackend.Memory, gpubackend.Result) {
	if result := m.options.Contexts.CheckDevice(device); result != gpubackend.Success {
		return 0, result
	}
	if bytes == 0 || bytes%gpubackend.Granularity != 0 || !memfd.Sealed(fd, bytes) {
		return 0, gpubackend.InvalidValue
	}
	p, err := m.newFile(device, bytes, func() (int, error) {
		return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		return 0, gpubackend.OutOfMemory
	}
	if m.space.Heap(p.gpu).Charge(ledger.Mapped, bytes) != nil {
		m.drop(p)
		return 0, gpubackend.OutOfMemory
	}
	return gpubackend.Memory(m.options.Handles.Add(p)), gpubackend.Success
}

// MapMemory implements gpubackend.Driver.
func (m *Memory) MapMemory(addr, bytes uint64, h gpubackend.Memory) gpubackend.Result {
	p, ok := m.find(h)
	if !ok || bytes != p.bytes {
		return gpubackend.InvalidValue
	}
	if m.space.MapFile(p.file, addr, bytes) != nil {
		return gpubackend.OutOfMemory
	}
	m.mapped[addr] = p.gpu
	return gpubackend.Success
}

// UnmapMemory implements gpubackend.Driver. Work that comes too late finds no region.
func (m *Memory) UnmapMemory(addr, bytes uint64) gpubackend.Result {
	m.space.Withdraw(addr)
	delete(m.mapped, addr)
	if space.ReserveAgain(addr, bytes) != nil {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// Protect implements gpubackend.Driver.
func (m *Memory) Protect(addr, bytes, device, access uint64) gpubackend.Result {
	if result := m.options.Contexts.CheckDevice(device); result != gpubackend.Success {
		return result
	}
	if gpu, ok := m.mapped[addr]; ok && access != gpubackend.AccessNone &&
		!m.options.Contexts.MayReach(int(device), gpu) {
		return gpubackend.InvalidDevice
	}
	m.space.Protect(addr, bytes, int(device), access != gpubackend.AccessNone,
		access == gpubackend.AccessReadWrite)
	return gpubackend.Success
}

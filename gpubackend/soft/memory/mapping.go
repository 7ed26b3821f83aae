// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// physical is memory without an address: a file.
type physical struct {
	file  int
	bytes uint64
	gpu   int
}

// newPhysical makes memory of a GPU from a file that make gives, if there is room for both.
func (m *Memory) newPhysical(
	gpu, bytes uint64, make func() (int, error),
) (gpubackend.Memory, gpubackend.Result) {
	m.Reclaim()
	heap := m.space.Heap(int(gpu))
	if m.files >= m.options.Files || heap.Charge(ledger.Mapped, bytes) != nil {
		return 0, gpubackend.OutOfMemory
	}
	fd, err := make()
	if err != nil {
		heap.Uncharge(ledger.Mapped, bytes)
		return 0, gpubackend.OutOfMemory
	}
	m.files++
	p := &physical{fd, bytes, int(gpu)}
	return gpubackend.Memory(m.options.Handles.Add(p)), gpubackend.Success
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
	return m.newPhysical(device, bytes, func() (int, error) {
		return memfd.New(memfd.OfGPU("memory", m.numbers[device]), bytes)
	})
}

// ReleaseMemory implements gpubackend.Driver.
func (m *Memory) ReleaseMemory(h gpubackend.Memory) gpubackend.Result {
	p, ok := handles.Find[*physical](m.options.Handles, uint64(h))
	if !ok {
		return gpubackend.InvalidValue
	}
	unix.Close(p.file)
	m.files--
	m.space.Heap(p.gpu).Uncharge(ledger.Mapped, p.bytes)
	m.options.Handles.Remove(uint64(h))
	return gpubackend.Success
}

// ExportMemory implements gpubackend.Driver.
func (m *Memory) ExportMemory(h gpubackend.Memory) (int, gpubackend.Result) {
	p, ok := handles.Find[*physical](m.options.Handles, uint64(h))
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
	return m.newPhysical(device, bytes, func() (int, error) {
		return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	})
}

// MapMemory implements gpubackend.Driver.
func (m *Memory) MapMemory(addr, bytes uint64, h gpubackend.Memory) gpubackend.Result {
	p, ok := handles.Find[*physical](m.options.Handles, uint64(h))
	if !ok || bytes != p.bytes {
		return gpubackend.InvalidValue
	}
	if m.space.MapFile(p.file, addr, bytes) != nil {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// UnmapMemory implements gpubackend.Driver. Work that comes too late finds no region.
func (m *Memory) UnmapMemory(addr, bytes uint64) gpubackend.Result {
	m.space.Withdraw(addr)
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
	m.space.Protect(addr, bytes, int(device), access != gpubackend.AccessNone,
		access == gpubackend.AccessReadWrite)
	return gpubackend.Success
}

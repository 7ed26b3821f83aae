// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
)

// memoryPiece is memory without an address: a file.
type memoryPiece struct {
	file  int
	bytes uint64
}

// newPiece makes memory of a file, which make gives, if there is room for both.
func (d *Device) newPiece(bytes uint64, make func() (int, error)) (gpubackend.Memory, gpubackend.Result) {
	d.reclaim()
	if d.pieces >= d.options.Files || d.space.heap.Charge(bytes) != nil {
		return 0, gpubackend.OutOfMemory
	}
	fd, err := make()
	if err != nil {
		d.space.heap.Uncharge(bytes)
		return 0, gpubackend.OutOfMemory
	}
	d.pieces++
	return gpubackend.Memory(d.handles.Add(&memoryPiece{fd, bytes})), gpubackend.Success
}

// Reserve implements gpubackend.Driver.
func (d *Device) Reserve(addr, bytes uint64) gpubackend.Result {
	if d.space == nil {
		return gpubackend.NotInitialized
	}
	if reserve(addr, bytes, unix.MAP_FIXED_NOREPLACE) != nil {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// Unreserve implements gpubackend.Driver.
func (d *Device) Unreserve(addr, bytes uint64) gpubackend.Result {
	unreserve(addr, bytes)
	return gpubackend.Success
}

// CreateMemory implements gpubackend.Driver.
func (d *Device) CreateMemory(bytes, device, _ uint64) (gpubackend.Memory, gpubackend.Result) {
	if result := d.CheckDevice(device); result != gpubackend.Success {
		return 0, result
	}
	return d.newPiece(bytes, func() (int, error) { return memoryFile("paracuda-memory", bytes) })
}

// ReleaseMemory implements gpubackend.Driver.
func (d *Device) ReleaseMemory(m gpubackend.Memory) gpubackend.Result {
	p, ok := handles.Find[*memoryPiece](d.handles, uint64(m))
	if !ok {
		return gpubackend.InvalidValue
	}
	unix.Close(p.file)
	d.pieces--
	d.space.heap.Uncharge(p.bytes)
	d.handles.Remove(uint64(m))
	return gpubackend.Success
}

// ExportMemory implements gpubackend.Driver.
func (d *Device) ExportMemory(m gpubackend.Memory) (int, gpubackend.Result) {
	p, ok := handles.Find[*memoryPiece](d.handles, uint64(m))
	if !ok {
		return -1, gpubackend.InvalidValue
	}
	fd, err := unix.FcntlInt(uintptr(p.file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, gpubackend.OutOfMemory
	}
	return fd, gpubackend.Success
}

// ImportMemory implements gpubackend.Driver. The process that made the file may have been taken over: the file must be one
// that stays as long as it is.
func (d *Device) ImportMemory(fd int, bytes, device uint64) (gpubackend.Memory, gpubackend.Result) {
	if result := d.CheckDevice(device); result != gpubackend.Success {
		return 0, result
	}
	if bytes == 0 || bytes%gpubackend.Granularity != 0 || !sealed(fd, bytes) {
		return 0, gpubackend.InvalidValue
	}
	return d.newPiece(bytes, func() (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
}

// sizeSeals keep a file as long as it is, for good.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// sealed says whether a file is memory of at least that size, and will be.
func sealed(fd int, bytes uint64) bool {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals != sizeSeals {
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Size >= 0 && uint64(st.Size) >= bytes
}

// MapMemory implements gpubackend.Driver.
func (d *Device) MapMemory(addr, bytes uint64, m gpubackend.Memory) gpubackend.Result {
	p, ok := handles.Find[*memoryPiece](d.handles, uint64(m))
	if !ok || bytes != p.bytes {
		return gpubackend.InvalidValue
	}
	if d.space.window.mapFile(p.file, addr, bytes, windowFlags|unix.MAP_FIXED) != nil {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// UnmapMemory implements gpubackend.Driver. Work that comes too late finds no region.
func (d *Device) UnmapMemory(addr, bytes uint64) gpubackend.Result {
	d.space.table.Store(d.space.table.Load().without(addr))
	if reserve(addr, bytes, unix.MAP_FIXED) != nil {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// Protect implements gpubackend.Driver.
func (d *Device) Protect(addr, bytes, _, access uint64) gpubackend.Result {
	t := d.space.table.Load().without(addr)
	if access != gpubackend.AccessNone {
		t = t.with(region{addr, addr + bytes, access == gpubackend.AccessReadWrite})
	}
	d.space.table.Store(t)
	return gpubackend.Success
}

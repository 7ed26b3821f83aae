// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
)

// Share implements gpubackend.Driver: the file is the whole window's.
func (d *Device) Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result) {
	if _, result = d.context(); result != gpubackend.Success {
		return s, -1, result
	}
	base, bytes, ok := d.space.heap.Piece(addr)
	if !ok || d.space.staged[base] {
		return s, -1, gpubackend.InvalidValue
	}
	fd, err := unix.FcntlInt(uintptr(d.space.window.file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return s, -1, gpubackend.OutOfMemory
	}
	return gpubackend.Shared{Start: base - d.space.window.base, Bytes: bytes, Offset: addr - base}, fd, gpubackend.Success
}

// MapShared implements gpubackend.Driver.
func (d *Device) MapShared(s gpubackend.Shared, fd int) (uint64, gpubackend.Result) {
	if _, result := d.context(); result != gpubackend.Success {
		return 0, result
	}
	if s.Bytes == 0 || s.Bytes%gpubackend.Granularity != 0 || s.Start%gpubackend.Granularity != 0 ||
		s.Bytes > d.space.window.size || s.Start > d.space.window.size-s.Bytes {
		return 0, gpubackend.InvalidValue
	}
	d.space.file, d.space.start = fd, int64(s.Start)
	addr, result := d.allocate(s.Bytes, d.space.heap.AllocPiece)
	d.space.file, d.space.start = -1, 0
	return addr, result
}

// UnmapShared implements gpubackend.Driver.
func (d *Device) UnmapShared(addr uint64) gpubackend.Result {
	if d.space.heap.Free(addr) != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

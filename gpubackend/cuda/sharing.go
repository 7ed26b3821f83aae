// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// Share exports the piece of the heap that holds addr.
func (d *Device) Share(addr uint64) (s gpubackend.Shared, fd int, r gpubackend.Result) {
	if !d.usable() {
		return s, -1, gpubackend.InvalidContext
	}
	base, bytes, ok := d.gpus[d.state.gpu].heap.Piece(addr)
	if !ok {
		return s, -1, gpubackend.InvalidValue
	}
	handle, r := d.MemRetain(base)
	if r != gpubackend.Success {
		return s, -1, r
	}
	defer d.MemRelease(handle)
	if fd, r = d.MemExport(handle); r != gpubackend.Success {
		return s, -1, r
	}
	s = gpubackend.Shared{Bytes: bytes, Offset: addr - base, Allocated: d.gpus[d.state.gpu].heap.Begins(addr)}
	return s, fd, r
}

// Watch watches every GPU's memory.
func (d *Device) Watch(gone func(addr, bytes uint64)) {
	for i := range d.gpus {
		d.gpus[i].heap.Watch(gone)
	}
}

// MapShared maps what Share exported in another process.
func (d *Device) MapShared(s gpubackend.Shared, fd int) (uint64, gpubackend.Result) {
	if !d.usable() {
		return 0, gpubackend.InvalidContext
	}
	addr, err := d.Import(fd, s.Bytes)
	if err != nil {
		d.log.WithError(err).Warn("map memory of another process")
		return 0, gpubackend.OutOfMemory
	}
	return addr, gpubackend.Success
}

// UnmapShared unmaps it.
func (d *Device) UnmapShared(addr uint64) gpubackend.Result {
	if d.Unimport(addr) != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// OpenEvent opens it in another process.
func (d *Device) OpenEvent(s gpubackend.SharedEvent, _ int) (gpubackend.Event, gpubackend.Result) {
	if !d.usable() {
		return 0, gpubackend.InvalidContext
	}
	return d.IpcOpenEventHandle(s)
}

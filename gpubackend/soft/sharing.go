// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/memfd"
)

// Share implements gpubackend.Driver: the file is the whole window's.
func (d *Device) Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result) {
	if _, result = d.Current(); result != gpubackend.Success {
		return s, -1, result
	}
	base, bytes, ok := d.Space().Heap.Piece(addr)
	if !ok || !d.Space().Owns(base) {
		return s, -1, gpubackend.InvalidValue
	}
	fd, err := d.Space().Duplicate()
	if err != nil {
		return s, -1, gpubackend.OutOfMemory
	}
	s = gpubackend.Shared{Start: base - d.Space().Base(), Bytes: bytes, Offset: addr - base, Allocated: d.Space().Heap.Begins(addr)}
	return s, fd, gpubackend.Success
}

// Watch implements gpubackend.Driver.
func (d *Device) Watch(gone func(addr, bytes uint64)) { d.Space().Heap.Watch(gone) }

// MapShared implements gpubackend.Driver.
func (d *Device) MapShared(s gpubackend.Shared, fd int) (uint64, gpubackend.Result) {
	if _, result := d.Current(); result != gpubackend.Success {
		return 0, result
	}
	if s.Bytes == 0 || s.Bytes%gpubackend.Granularity != 0 || s.Start%gpubackend.Granularity != 0 ||
		s.Bytes > d.Space().Size() || s.Start > d.Space().Size()-s.Bytes || !memfd.Sealed(fd, s.Start+s.Bytes) {
		return 0, gpubackend.InvalidValue
	}
	return d.AllocPiece(fd, int64(s.Start), s.Bytes)
}

// UnmapShared implements gpubackend.Driver.
func (d *Device) UnmapShared(addr uint64) gpubackend.Result {
	if d.Space().Heap.Free(addr) != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// ShareEvent implements gpubackend.Driver: the file is the event's page.
func (d *Device) ShareEvent(h gpubackend.Event) (s gpubackend.SharedEvent, fd int, result gpubackend.Result) {
	e, result := d.event(h)
	if result != gpubackend.Success {
		return s, -1, result
	}
	if e.shared == nil {
		return s, -1, gpubackend.InvalidHandle
	}
	fd, err := unix.FcntlInt(uintptr(e.shared.file), unix.F_DUPFD_CLOEXEC, 0)
	runtime.KeepAlive(e.shared)
	if err != nil {
		return s, -1, gpubackend.OutOfMemory
	}
	return s, fd, gpubackend.Success
}

// OpenEvent implements gpubackend.Driver.
func (d *Device) OpenEvent(_ gpubackend.SharedEvent, fd int) (gpubackend.Event, gpubackend.Result) {
	c, result := d.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, gpubackend.InvalidHandle
	}
	shared, err := mapSharedEvent(own)
	if err != nil {
		return 0, gpubackend.InvalidHandle
	}
	return gpubackend.Event(d.handles.Add(&event{ctx: c, shared: shared})), gpubackend.Success
}

// finishShared ends what other processes wait for: nothing that is queued here is done any more.
func (d *Device) finishShared() {
	for _, object := range d.handles.All() {
		if e, ok := object.(*event); ok && e.shared != nil {
			e.shared.finish(e.own)
		}
	}
}

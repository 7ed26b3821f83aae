// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/sharedevent"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

// Options are what sharing is given.
type Options struct {
	Contexts *contexts.Contexts
	Memory   *memory.Memory
	Streams  *streams.Streams
}

// Sharing is memory and events that several processes of a guest use.
type Sharing struct{ options Options }

// New returns what shares a device's memory and events.
func New(o Options) *Sharing { return &Sharing{o} }

// Share implements gpubackend.Driver. The file is the whole window of a GPU.
func (x *Sharing) Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result) {
	if _, result = x.options.Contexts.Current(); result != gpubackend.Success {
		return s, -1, result
	}
	space := x.options.Memory.Space()
	heap := space.HeapOf(addr)
	base, bytes, ok := heap.Segment(addr)
	if !ok || !space.Owns(base) {
		return s, -1, gpubackend.InvalidValue
	}
	fd, start, err := space.Duplicate(base)
	if err != nil {
		return s, -1, gpubackend.OutOfMemory
	}
	s = gpubackend.Shared{
		Start: start, Bytes: bytes, Offset: addr - base, Allocated: heap.Begins(addr),
	}
	return s, fd, gpubackend.Success
}

// Watch implements gpubackend.Driver.
func (x *Sharing) Watch(gone func(addr, bytes uint64)) {
	for _, h := range x.options.Memory.Space().Heaps() {
		h.Watch(gone)
	}
}

// MapShared implements gpubackend.Driver.
func (x *Sharing) MapShared(s gpubackend.Shared, fd int) (uint64, gpubackend.Result) {
	if _, result := x.options.Contexts.Current(); result != gpubackend.Success {
		return 0, result
	}
	if !x.possible(s, fd) {
		return 0, gpubackend.InvalidValue
	}
	return x.options.Memory.AllocSegment(ledger.Mapped, fd, int64(s.Start), s.Bytes)
}

// possible says whether a file has such memory.
func (x *Sharing) possible(s gpubackend.Shared, fd int) bool {
	window := x.options.Memory.Space().WindowSize()
	return s.Bytes != 0 && s.Bytes%gpubackend.Granularity == 0 &&
		s.Start%gpubackend.Granularity == 0 && s.Bytes <= window && s.Start <= window-s.Bytes &&
		memfd.Sealed(fd, s.Start+s.Bytes)
}

// TakeShared implements gpubackend.Driver.
func (x *Sharing) TakeShared(addr uint64, s gpubackend.Shared, fd int) gpubackend.Result {
	if !x.possible(s, fd) {
		return gpubackend.InvalidValue
	}
	return x.options.Memory.TakeSegment(addr, fd, int64(s.Start), s.Bytes)
}

// UnmapShared implements gpubackend.Driver.
func (x *Sharing) UnmapShared(addr uint64) gpubackend.Result {
	if x.options.Memory.Space().HeapOf(addr).Free(addr) != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// ShareEvent implements gpubackend.Driver: the file is the event's page.
func (x *Sharing) ShareEvent(
	h gpubackend.Event,
) (s gpubackend.SharedEvent, fd int, result gpubackend.Result) {
	e, result := x.options.Streams.Shareable(h)
	if result != gpubackend.Success {
		return s, -1, result
	}
	fd, err := e.Duplicate()
	if err != nil {
		return s, -1, gpubackend.OutOfMemory
	}
	return s, fd, gpubackend.Success
}

// OpenEvent implements gpubackend.Driver.
func (x *Sharing) OpenEvent(
	_ gpubackend.SharedEvent, fd int,
) (gpubackend.Event, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, gpubackend.InvalidHandle
	}
	shared, err := sharedevent.Map(own)
	if err != nil {
		return 0, gpubackend.InvalidHandle
	}
	return x.options.Streams.OpenShared(c, shared), gpubackend.Success
}

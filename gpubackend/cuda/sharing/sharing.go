// SPDX-License-Identifier: Apache-2.0

// Package sharing gives device memory and events to other processes of the guest. These get files
// and handles of the driver, which pass through the caller and never come from a guest.
package sharing

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	MemRetain(addr uint64) (handle uint64, r gpubackend.Result)
	MemRelease(handle uint64) gpubackend.Result
	MemExport(handle uint64) (fd int, r gpubackend.Result)
	IpcOpenEventHandle(s gpubackend.SharedEvent) (gpubackend.Event, gpubackend.Result)
}

// Memory is the memory that is shared.
type Memory interface {
	Segment(addr uint64) (base, bytes uint64, allocated, ok bool)
	WatchSegments(gone func(addr, bytes uint64))
	Import(fd int, bytes uint64) (uint64, error)
	TakeImport(addr uint64, fd int, bytes uint64) error
	Unimport(addr uint64) error
}

// Sharing keeps nothing of its own.
type Sharing struct {
	calls    Calls
	contexts *contexts.Contexts
	memory   Memory
	log      *logrus.Entry
}

// New returns what shares a process's memory.
func New(calls Calls, x *contexts.Contexts, memory Memory, log *logrus.Entry) *Sharing {
	return &Sharing{calls: calls, contexts: x, memory: memory, log: log}
}

// Share exports the segment of the heap that holds addr.
func (x *Sharing) Share(addr uint64) (s gpubackend.Shared, fd int, r gpubackend.Result) {
	if !x.contexts.Usable() {
		return s, -1, gpubackend.InvalidContext
	}
	base, bytes, allocated, ok := x.memory.Segment(addr)
	if !ok {
		return s, -1, gpubackend.InvalidValue
	}
	handle, r := x.calls.MemRetain(base)
	if r != gpubackend.Success {
		return s, -1, r
	}
	defer x.calls.MemRelease(handle)
	if fd, r = x.calls.MemExport(handle); r != gpubackend.Success {
		return s, -1, r
	}
	return gpubackend.Shared{Bytes: bytes, Offset: addr - base, Allocated: allocated}, fd, r
}

// Watch sets who is told before memory of any GPU is given up.
func (x *Sharing) Watch(gone func(addr, bytes uint64)) { x.memory.WatchSegments(gone) }

// MapShared maps what Share exported in another process.
func (x *Sharing) MapShared(s gpubackend.Shared, fd int) (uint64, gpubackend.Result) {
	if !x.contexts.Usable() {
		return 0, gpubackend.InvalidContext
	}
	addr, err := x.memory.Import(fd, s.Bytes)
	if err != nil {
		x.log.WithError(err).Warn("can't map memory of another process")
		return 0, gpubackend.OutOfMemory
	}
	return addr, gpubackend.Success
}

// TakeShared maps it where it was in another process.
func (x *Sharing) TakeShared(addr uint64, s gpubackend.Shared, fd int) gpubackend.Result {
	if err := x.memory.TakeImport(addr, fd, s.Bytes); err != nil {
		x.log.WithError(err).Warn("can't map memory of another process again")
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// UnmapShared unmaps it.
func (x *Sharing) UnmapShared(addr uint64) gpubackend.Result {
	if x.memory.Unimport(addr) != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// OpenEvent opens an event of another process.
func (x *Sharing) OpenEvent(s gpubackend.SharedEvent, _ int) (gpubackend.Event, gpubackend.Result) {
	if !x.contexts.Usable() {
		return 0, gpubackend.InvalidContext
	}
	return x.calls.IpcOpenEventHandle(s)
}

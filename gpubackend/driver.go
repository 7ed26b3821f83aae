// SPDX-License-Identifier: Apache-2.0

package gpubackend

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Streams that need no handle, as in CUDA: the default stream (legacy in this interface) and its
// explicit name. The per-thread stream never gets here: the worker gives every guest thread a
// stream of its own.
const (
	DefaultStream Stream = 0
	LegacyStream  Stream = 1
)

// Driver is a GPU as one worker uses it. Calls act on the current context (SetCurrent), in order,
// as those of one host thread do. No call waits for work on the GPU unless its comment says so.
//
// It is made of what devices have a room for. Whoever uses a device asks for the few functions that
// it calls: each room of the worker has an interface of its own for that.
type Driver interface {
	Functions // what gpubackend/api describes
	Opening
	Switching
	Announcing
	Launching
	Copying
	Staging
	Registering
	Calling
	Capturing
	Mapping
	Texturing
	Sharing
	Partitioning
	Moving
	Comparing
	Saving
}

// Opening is what begins and ends the use of a device.
type Opening interface {
	// Open initialises the device for a process with the given environment ("NAME=value") and
	// describes it.
	Open(env []string) (*Inventory, Result)
	// Warm does ahead of Open, and at most once, what Open and the first use of a GPU's primary
	// context take long for. It is for a process that sets no variables. After an error the device
	// is of no use.
	Warm(gpu int) Result
	// Suits says whether Open can have env. A device that is warm can't if env would have changed
	// it: then the process with that environment needs a device in a process of its own.
	Suits(env []string) bool
	// Close frees everything.
	Close()
}

// Switching is the current context, and whether it has anything left to do.
type Switching interface {
	// SetCurrent makes c the current context; 0 is none.
	SetCurrent(c Context) Result
	// ContextQuery returns Success when all work in the current context is complete, NotReady
	// before that, or the error that ended it.
	ContextQuery() Result
}

// Announcing is words in memory that say when work is done, for a worker that would else ask.
type Announcing interface {
	// Announce has the device write value to addr, registered host memory of this process, when all
	// work that is queued in s now is done; with all set, all work in the current context.
	// NotSupported: there may be no such work, or the device can't: the caller asks from time to
	// time instead. It has to do so anyway, now and then: work that fails announces nothing.
	Announce(s Stream, all bool, addr uint64, value uint32) Result
	// Announced is told that value, which was announced at addr in the current context, has
	// arrived. It says whether the context has no other work, so that no further question is
	// needed.
	Announced(addr uint64, value uint32) (settled bool)
}

// Launching is kernels, and what they print.
type Launching interface {
	// Launch queues a kernel. The parameters are packed as the function's record lays them out;
	// they are copied before Launch returns.
	Launch(l *Launch) Result
	// LaunchAll queues kernels without attributes, in order, all in one stream of the current
	// context. It returns how many it queued: all of them unless result says why the next one
	// failed.
	LaunchAll(ls []Launch) (queued int, result Result)
	// Output takes what kernels printed since the last call, in order.
	Output() []Output
}

// Copying is copies.
type Copying interface {
	// Copy queues a copy between device and registered addresses, any to any.
	Copy(dst, src, bytes uint64, s Stream) Result
	// CopyIn copies src to the device in stream order. src may be changed when it returns; the call
	// may wait for the stream only if src is larger than 64 KiB.
	CopyIn(dst uint64, src []byte, s Stream) Result
	// CopyOut copies from the device. The stream must be idle (StreamQuery returned Success): waits
	// for the copy only.
	CopyOut(dst []byte, src uint64) Result
	// CopyBox queues a copy of height*depth rows between device (or registered) addresses.
	CopyBox(b *Box, s Stream) Result
}

// Staging is device memory that the mover can map.
type Staging interface {
	// Staging gives device memory that another process can map: its address here, and a file for
	// the mover (package mover says how it is mapped). The caller closes the file.
	Staging(bytes uint64) (addr uint64, fd int, result Result)
	// Unstage gives such memory back. No work may use it any more.
	Unstage(addr uint64)
}

// Registering is memory of this process, the guest's pages, that kernels reach.
type Registering interface {
	// HostRegister makes [addr, addr+bytes) of this process reachable for kernels and Copy, at the
	// same address.
	HostRegister(addr, bytes uint64, writable bool) Result
	// HostUnregister undoes it. No work may use the range any more; it waits for work that does.
	HostUnregister(addr, bytes uint64) Result
	// HostPageable says that [addr, addr+bytes) of this process is the guest process's ordinary
	// memory from now on: Copy, CopyBox and nodes of graphs may name it as a program names its own.
	// Other pages may take the place of those that are there at any time. No address is told of
	// twice.
	HostPageable(addr, bytes uint64) Result
}

// Calling is functions of the guest's that streams wait for.
type Calling interface {
	// HostFunc calls f, on any goroutine or thread, when s has done all earlier work; later work in
	// s waits until release is called, on any goroutine, also while another call of the driver's
	// waits for s.
	HostFunc(s Stream, token uint64, f func(token uint64)) (release func(), result Result)
}

// Output is text that a kernel wrote.
type Output struct {
	FD   uint32 // 1: printf, 2: assert
	Text []byte
}

// Launch is a kernel launch.
type Launch struct {
	Function   Function
	Grid       [3]uint32
	Block      [3]uint32
	Shared     uint32
	Stream     Stream
	Parameters []byte
	Attributes []byte // CUlaunchAttribute, 72 bytes each
	Hash       uint64 // of what package launches compares, once that knows it; 0 before
}

// Box describes a two- or three-dimensional copy. Pitches and slices are bytes from row to row and
// plane to plane.
type Box struct {
	Dst, DstPitch, DstSlice uint64
	Src, SrcPitch, SrcSlice uint64
	Width, Height, Depth    uint64
}

// Inventory is what a guest learns of its devices at the start.
type Inventory struct {
	wire.Inventory
	Device []wire.InventoryDevice
	Pair   []wire.InventoryPair // of each two devices: from the first to the first, the second, …
}

// Name returns the function's name in the API.
func (o Op) Name() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return fmt.Sprintf("op %d", uint16(o))
}

// workNowhere stands for the word of the stream where a command names none.
const workNowhere = ^uint8(0)

// Works says whether the function gives the GPU work, or may.
func (o Op) Works() bool { return int(o) < len(workStream) && workStream[o] != 0 }

// WorkStream is the word in which a function that gives the GPU work names the stream for it.
func (o Op) WorkStream() (word int, ok bool) {
	if !o.Works() || workStream[o] == workNowhere {
		return 0, false
	}
	return int(workStream[o]) - 1, true
}

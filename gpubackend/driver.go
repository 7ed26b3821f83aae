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
// It is made of smaller interfaces, one for each room of a device. Each room of the worker declares
// an interface with the few functions that it calls.
type Driver interface {
	Functions // what gpubackend/api describes
	Opening
	Switching
	Announcing
	Launching
	Copying
	Allocating
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
	// Warm does ahead of Open, and at most once, what takes long in Open and in the first use of a
	// GPU's primary context. It is for a process that sets no variables. After an error the device
	// can't be used.
	Warm(gpu int) Result
	// Suits says whether Open can be called with env. If the device is warm and env would have
	// changed it, it can't: then that guest process needs a device in another process.
	Suits(env []string) bool
	// Close frees everything.
	Close()
}

// Switching has the current context, and asks whether it has anything left to do.
type Switching interface {
	// SetCurrent makes c the current context; 0 is none.
	SetCurrent(c Context) Result
	// ContextQuery returns Success when all work in the current context is complete, NotReady
	// before that, or the error that ended it.
	ContextQuery() Result
}

// Announcing lets the device write words to memory when work is done, so that a worker needn't ask.
type Announcing interface {
	// Announce lets the device write value to addr, registered host memory of this process, when
	// all work that is queued in s now is done; with all set, all work in the current context.
	// After NotSupported, which says that there may be no such work or that the device can't, the
	// caller asks from time to time. It must do so now and then anyway: work that fails announces
	// nothing.
	Announce(s Stream, all bool, addr uint64, value uint32) Result
	// Announced is told that value, which was announced at addr in the current context, has
	// arrived. It says whether the context has no other work, so that no further question is
	// needed.
	Announced(addr uint64, value uint32) (settled bool)
}

// Launching has kernels, and what they print.
type Launching interface {
	// Launch queues a kernel. The parameters are packed as the function's record lays them out;
	// they are copied before Launch returns.
	Launch(l *Launch) Result
	// LaunchDevices queues a kernel on several devices, in streams of their contexts. Their blocks
	// can wait for one another, and ask the device about all of them (CUDA 12's multi_grid).
	LaunchDevices(ls []Launch, flags uint32) Result
	// LaunchAll queues kernels without attributes, in order, all in one stream of the current
	// context. It returns how many it queued: all of them unless result says why the next one
	// failed.
	LaunchAll(ls []Launch) (queued int, result Result)
	// Output takes what kernels printed since the last call, in order.
	Output() []Output
}

// Copying has copies.
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

// Allocating has device memory that is there now.
type Allocating interface {
	// MemAllocNow is MemAlloc that waits for no work. With OutOfMemory, later says that there may
	// be room when the work of the current context is over: that may use memory which was freed.
	MemAllocNow(bytes uint64) (addr uint64, later bool, result Result)
}

// Staging has device memory that the mover can map.
type Staging interface {
	// Staging gives device memory that another process can map: its address here, and a file for
	// the mover (package mover says how it is mapped). The caller closes the file.
	Staging(bytes uint64) (addr uint64, fd int, result Result)
	// Unstage gives such memory back. No work may use it any more.
	Unstage(addr uint64)
}

// Registering has memory of this process, the guest's pages, that kernels can reach.
type Registering interface {
	// HostRegister makes [addr, addr+bytes) of this process reachable for kernels and Copy, at the
	// same address.
	HostRegister(addr, bytes uint64, writable bool) Result
	// HostUnregister undoes it. No work may use the range any more; it waits for work that does.
	HostUnregister(addr, bytes uint64) Result
	// HostPageable says that from now on [addr, addr+bytes) of this process is the guest process's
	// ordinary memory: Copy, CopyBox and nodes of graphs may use it as a program uses its own. Its
	// pages may be replaced at any time. No address is named twice.
	HostPageable(addr, bytes uint64) Result
}

// Calling has the guest's functions for which streams wait.
type Calling interface {
	// HostFunc calls f, on any goroutine or thread, when s has done all earlier work; later work in
	// s waits until release is called, on any goroutine, also while another call of the driver
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
	Hash       uint64 // of what package launches compares; 0 until it has computed that
}

// Box describes a two- or three-dimensional copy. Pitches and slices are bytes from row to row and
// plane to plane.
type Box struct {
	Dst, DstPitch, DstSlice uint64
	Src, SrcPitch, SrcSlice uint64
	Width, Height, Depth    uint64
}

// Inventory is what a guest is told about its devices at the start.
type Inventory struct {
	wire.Inventory
	Device []wire.InventoryDevice
	Pair   []wire.InventoryPair // of each pair: from the first to the first, to the second, …
	Memory []uint64             // of each device: what it has, of which the guest may have less
}

// Name returns the function's name in the API.
func (o Op) Name() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return fmt.Sprintf("op %d", uint16(o))
}

// workNowhere stands for the position of the stream's word in a command that names no stream.
const workNowhere = ^uint8(0)

// Works says whether the function may give the GPU work.
func (o Op) Works() bool { return int(o) < len(workStream) && workStream[o] != 0 }

// WorkStream is the position of the word in which a function that gives the GPU work names the
// stream.
func (o Op) WorkStream() (word int, ok bool) {
	if !o.Works() || workStream[o] == workNowhere {
		return 0, false
	}
	return int(workStream[o]) - 1, true
}

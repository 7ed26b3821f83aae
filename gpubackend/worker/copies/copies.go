// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
)

// Driver is what Copies use of gpubackend.Driver.
type Driver interface {
	ContextQuery() gpubackend.Result
	Copy(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result
	CopyIn(dst uint64, src []byte, s gpubackend.Stream) gpubackend.Result
	CopyBox(b *gpubackend.Box, s gpubackend.Stream) gpubackend.Result
	HostRegister(addr, bytes uint64, writable bool) gpubackend.Result
	Staging(bytes uint64) (addr uint64, fd int, result gpubackend.Result)
	Unstage(addr uint64)
	Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result)
	ExportMemory(m gpubackend.Memory) (fd int, result gpubackend.Result)
	Watch(gone func(addr, bytes uint64))
}

// Contexts makes the context of a copy current.
type Contexts interface {
	Set(handle uint64, optional bool) gpubackend.Result
}

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Maps counts the uses of the guest's pages.
type Maps interface {
	Named(r call.Reference, write bool) (*maps.Map, gpubackend.Result)
	Use(m *maps.Map)
	Release(m *maps.Map)
	GiveUnused(c *call.Call, result gpubackend.Result)
}

// Arena is the part of the arena that the device reads and writes itself.
type Arena interface {
	BulkArea() []byte
	Address(b []byte) uint64
}

// Config is what Copies need.
type Config struct {
	Driver   Driver
	Contexts Contexts
	Fences   fences.Interface
	Streams  Streams
	Maps     Maps
	Arena    func() Arena

	// NeedMover asks for the mover: Connect brings it, or Refused says that there is none.
	NeedMover func()
	// Synchronize makes a call be answered when all work of a stream is done.
	Synchronize func(c *call.Call, s gpubackend.Stream) gpubackend.Result
	// May says whether another chunk may be begun; nil: always.
	May func() bool
	// WhenDone makes a call be answered when what is in a stream now is done.
	WhenDone func(c *call.Call, s gpubackend.Stream) gpubackend.Result
	// Await makes a call be answered when work is over.
	Await func(c *call.Call, work call.Work) gpubackend.Result
	// AtAddress says whether the driver reaches pages at the guest's own address.
	AtAddress func(m *maps.Map, r call.Reference) bool
	// MappedAt returns the guest's own mapping that holds an address.
	MappedAt func(address uint64) (memory.Mapping, bool)
	// MakeRoom makes others give back memory that they can do without, and says whether there was
	// any.
	MakeRoom func() bool
	// Gone is called for a range that the device gives up, once Watch was called.
	Gone func(address, bytes uint64)
	// StagingBytes is how much memory copies may pass through.
	StagingBytes func() uint64
	// Failed counts the result of a copy that no call gets.
	Failed func(gpubackend.Result)
	Count  func(handover.Counter, uint64)
	Log    *logrus.Entry
}

// Copies are the copies between the guest and the device.
type Copies struct {
	Config
	reach          reach
	chunks         chunks
	staging        staging
	threads        [wire.SlotCount]*parts // by slot: not joined yet
	loans          loans
	queued         queuedCopies
	bulkRegistered bool
}

// New returns Copies without a copy.
func New(c Config) *Copies {
	if c.May == nil {
		c.May = func() bool { return true }
	}
	return &Copies{Config: c}
}

// Handlers are the commands that Copies execute.
func (t *Copies) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpCopyHtoD:      call.Decoded(command.DecodeCopyHtoD, t.copyHtoD),
		gpubackend.OpCopyDtoH:      call.Decoded(command.DecodeCopyDtoH, t.copyDtoH),
		gpubackend.OpCopyBox:       call.Decoded(command.DecodeCopyBox, t.copyBox),
		gpubackend.Op(wire.OpJoin): call.Bare(call.Decoded(command.DecodeJoin, t.join)),
	}
}

// Active says whether any chunk is under way.
func (t *Copies) Active() bool { return t.chunks.flying > 0 }

// GoOn says whether queued copies of pinned memory should still be under way.
func (t *Copies) GoOn(now time.Time) bool { return t.queued.goOn(now) }

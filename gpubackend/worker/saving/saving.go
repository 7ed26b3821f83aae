// SPDX-License-Identifier: Apache-2.0

// Package saving writes all that a program has to a record, and makes it again in another worker:
// what each room knows, in an order in which each finds what it needs.
//
//	saving.go    what it is made of
//	why.go       what is in the way
//	save.go      writes a record (package saved has what goes into its state)
//	restore.go   reads one, and makes the objects
//	join.go      makes those that depend on other programs
//	memory.go    device memory: whose it is, and what is in it
//	ahead.go     what of it was copied ahead
//	failed.go    a program whose context has failed
//
// # Who owns what
//
// The worker's loop owns a Saving, and saves when nothing is under way. What is saved belongs to
// the rooms, which are asked for it, and a program that was saved can go on. A worker that restores
// has done nothing before, and ends after an error.
//
// # Who may lie
//
// Who wrote the record. The rooms check their parts like anything that a guest says; objects are
// made by commands that a guest may give, and must get their old handles.
package saving

import (
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/graphs"
	"github.com/paracuda/paracuda/gpubackend/worker/hostmemory"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/gpubackend/worker/sharing"
	"github.com/paracuda/paracuda/gpubackend/worker/textures"
)

// Driver is what a Saving uses of gpubackend.Driver.
type Driver interface {
	ContextQuery() gpubackend.Result
	FixedGraphs() int

	Saves() bool
	Unsavable() string
	SaveLayout(to io.Writer) error
	RestoreLayout(from io.Reader) error
	LayoutRestored() error
	Allocated() []gpubackend.Allocation
	TakeAllocation(a gpubackend.Allocation) gpubackend.Result
	Codes() []gpubackend.Code
	PlaceCode(address uint64) error
	LoadCode(l gpubackend.Library) gpubackend.Result
	ArrayPlaces() []gpubackend.ArrayPlace
	SavesTextures() bool
	UnsavableCode(image []byte, mem *budget.Account) string
	EventTimes(list []gpubackend.Event) []gpubackend.EventTime
	SetEventTimes(list []gpubackend.EventTime) gpubackend.Result
}

// Contexts makes a context current.
type Contexts interface {
	Set(handle uint64, optional bool) gpubackend.Result
}

// Hello is what the guest process and the worker told each other.
type Hello interface {
	IsOpen() bool
	Told() (environment []string, inventory []byte)
	// Suits says whether the GPUs are those of an inventory.
	Suits(inventory []byte) bool
	Reopen(variables []string) gpubackend.Result
}

// Queue is what came through the channel's queue.
type Queue interface {
	Saved() *saved.Queue
	Restore(s *saved.Queue) error
	// Used says whether a map has more uses than rightly returns for it.
	Used(rightly func(*maps.Map) int) bool
}

// HostFuncs are the host functions of the guest.
type HostFuncs interface {
	Told() (seq uint32, waits bool)
	GoOn(seq uint32)
}

// History has the commands that made the objects.
type History interface {
	Refused() error
	Executed(others int) ([]journal.Executed, error)
	Replay(executed []journal.Executed, run func(*call.Call) gpubackend.Result,
		before, after func(made []uint64) error) error
}

// Pools are memory pools.
type Pools interface {
	Save() (*pools.Saved, error)
	Restore(s *pools.Saved, next func(handle uint64) error) error
	Join(s *pools.Saved) error
	// Offered is how many segments of their memory are offered.
	Offered() int
	takes
}

// Graphs are the guest's graphs.
type Graphs interface {
	Captures() int // that are under way
	Saves() int
	Save() (*graphs.Saved, error)
	Restore(s *graphs.Saved, with *graphs.Restoring) error
}

// Textures are texture and surface objects.
type Textures interface {
	Fixed() int
	Save() ([]textures.SavedObject, error)
	Restore(list []textures.SavedObject, current func(context uint64) gpubackend.Result) error
}

// takes is of what may have something of other processes.
type takes interface {
	// Lacks says why that couldn't be taken again; nil: it could. The error wraps offers.ErrNone if
	// nobody has it any more.
	Lacks() error
}

// Memory is virtual memory.
type Memory interface {
	Handles() int
	// Shared is how much is shared, and Lone how much of that can't be found again.
	Shared() (exported, imported int)
	Lone() int
	takes
	Save() memory.Saved
	Restore(s *memory.Saved, next func(handle uint64) error) error
	Join(s *memory.Saved, next func(handle uint64) error) error
}

// HostMemory is memory of the guest that the device reaches.
type HostMemory interface {
	Shown() int
	Uses(m *maps.Map) int
	Save() hostmemory.Saved
	Restore(s *hostmemory.Saved) error
}

// Sharing is what the guest process shares with others.
type Sharing interface {
	// Handles is how many objects Join makes, and Opened says whether an event is one of them.
	Handles() int
	Opened(handle uint64) bool
	// Offered is how many pieces of memory and how many events are offered.
	Offered() (memory, events int)
	takes
	Save() sharing.Saved
	// Restore offers what is the program's own, and Join takes what others offer.
	Restore(s *sharing.Saved) error
	Join(s *sharing.Saved, next func(handle uint64) error) error
}

// Imports are what the device process has handed over, and the program hasn't named yet.
type Imports interface {
	Lacks() error
	Save() []exports.Saved
	// Join has it wait again, when others offer it.
	Join([]exports.Saved) error
}

// DeviceMemory is the program's, wherever it is.
type DeviceMemory interface {
	All() []gpubackend.Piece
	Save(to io.Writer) error
	// SavePart writes some of it that is in.
	SavePart(list []gpubackend.Piece, to io.Writer) error
	// ImageBytes is how much of it there is elsewhere: it may be out.
	ImageBytes() uint64
	Fill(list []gpubackend.Piece, from io.Reader) error
}

// Precopied knows the memory of which there are copies elsewhere.
type Precopied interface {
	Changed(pieces []gpubackend.Piece) ([]gpubackend.Piece, error)
	Early(pieces []gpubackend.Piece) (runs []savedvm.SameRun, rest []gpubackend.Piece, err error)
}

// FiledMemory is what the file has that the program went on from.
type FiledMemory interface {
	Note(list []gpubackend.Piece)
	Compare(list []gpubackend.Piece) (runs []savedvm.SameRun, rest []gpubackend.Piece)
}

// Config is what a Saving needs.
type Config struct {
	GPU        string // the kind that the record is for
	Driver     Driver
	Objects    *object.Table
	Buffers    *call.Buffers
	Contexts   Contexts
	Hello      Hello
	Queue      Queue
	HostFuncs  HostFuncs
	History    History // nil: the device's state can't be saved
	Pools      Pools
	Graphs     Graphs
	Textures   Textures
	Memory     Memory
	HostMemory HostMemory
	Sharing    Sharing
	Imports    Imports
	// DeviceMemory is the memory that was planned to be moved or saved.
	DeviceMemory DeviceMemory
	Precopied    Precopied
	Filed        FiledMemory
	// Host is what reading the program's images counts for; nil: it doesn't.
	Host *budget.Budget
	// Waits says why a waiting call is in the way; nil: none is.
	Waits func() error
	// Run executes a command.
	Run func(*call.Call) gpubackend.Result
	// Told is the error that the program was told its context has failed with, or Success.
	Told func() gpubackend.Result
	// Fail makes the worker, which has done nothing yet, that of a program that was told so.
	Fail func(gpubackend.Result)
}

// Saving writes a program to a record, and makes it again.
type Saving struct {
	Config
	// joins makes what depends on other programs; nil: nothing does
	joins func() error
}

// New returns a Saving.
func New(c Config) *Saving { return &Saving{Config: c} }

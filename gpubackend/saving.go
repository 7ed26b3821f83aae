// SPDX-License-Identifier: Apache-2.0

package gpubackend

import (
	"io"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Allocation is device memory of MemAlloc.
type Allocation struct {
	Address, Bytes uint64
	Context        Context
}

// CreatedMemory is memory of CreateMemory.
type CreatedMemory struct {
	Memory                     Memory
	Bytes, Device, Compression uint64
}

// Code says where the variables of code are in a context: code of a module that was loaded as such,
// or of a library. Without variables the address is 0. Variables of a library that has the same
// ones in all contexts have Context 0: they are there as soon as it is loaded.
type Code struct {
	Address uint64
	Module  Module // 0: it is the library's
	Library Library
	Context Context
}

// EventTime is when a recorded event was over, in nanoseconds before now. Context is the context
// that the device needs to tell times; 0: none.
type EventTime struct {
	Event   Event
	Ago     int64
	Context Context
}

// Saving turns another device, in another process, into a copy of this one: the same objects with
// all their memory at the same addresses. The caller knows how the objects were made, and makes
// them again. No work is under way meanwhile, and no stream captures.
//
// The other device is opened as this one was; then RestoreLayout is called before all else. Each
// object is made as it was made here, but code only after PlaceCode, and a library's code by
// LoadCode as soon as there are both library and context. TakeAllocation takes over what MemAlloc
// has given, TakeMemory what CreateMemory has made. LayoutRestored says whether that was all. What
// is in the memory is copied by Moving.
type Saving interface {
	SavingGraphs
	SavingTextures
	// AwaitsHost says whether all work under way is host functions that were called and haven't
	// returned: what follows them hasn't begun. False if the device can't tell.
	AwaitsHost() bool
	// Saves says whether the device can be saved at all.
	Saves() bool
	// Unsavable says why the device's state can't be saved now; "": it can.
	Unsavable() string
	// UnsavableCode says why an image's code can't be loaded again unnoticed; "": it can. What it
	// reads is taken from mem.
	UnsavableCode(image []byte, mem *budget.Account) string
	// SaveLayout writes what lies where in device memory. RestoreLayout reads it.
	SaveLayout(to io.Writer) error
	RestoreLayout(from io.Reader) error
	LayoutRestored() error
	// Allocated lists the memory of MemAlloc.
	Allocated() []Allocation
	// TakeAllocation makes memory an allocation of the current context.
	TakeAllocation(a Allocation) Result
	// TakeMemory makes memory of CreateMemory again. It is mapped where the caller maps it.
	TakeMemory(m CreatedMemory) Result
	// Codes lists the code in all contexts.
	Codes() []Code
	// PlaceCode says where the variables are of the code, or the memory of the array, that is made
	// next.
	PlaceCode(address uint64) error
	// LoadCode makes a library's code for the current context.
	LoadCode(l Library) Result
	// EventTimes lists those of these events that are recorded and have a time. SetEventTimes makes
	// events such ones.
	EventTimes(list []Event) []EventTime
	SetEventTimes(list []EventTime) Result
}

// Unsaved is a device whose state can't be saved.
type Unsaved struct{}

// AwaitsHost implements Saving.
func (Unsaved) AwaitsHost() bool { return false }

// Saves implements Saving.
func (Unsaved) Saves() bool { return false }

// Unsavable implements Saving.
func (Unsaved) Unsavable() string { return "the state of this kind of GPU can't be saved yet" }

// UnsavableCode implements Saving.
func (Unsaved) UnsavableCode([]byte, *budget.Account) string { return "" }

// SaveLayout implements Saving.
func (Unsaved) SaveLayout(io.Writer) error { return NotSupported.Err() }

// RestoreLayout implements Saving.
func (Unsaved) RestoreLayout(io.Reader) error { return NotSupported.Err() }

// LayoutRestored implements Saving.
func (Unsaved) LayoutRestored() error { return NotSupported.Err() }

// Allocated implements Saving.
func (Unsaved) Allocated() []Allocation { return nil }

// TakeAllocation implements Saving.
func (Unsaved) TakeAllocation(Allocation) Result { return NotSupported }

// TakeMemory implements Saving.
func (Unsaved) TakeMemory(CreatedMemory) Result { return NotSupported }

// Codes implements Saving.
func (Unsaved) Codes() []Code { return nil }

// PlaceCode implements Saving.
func (Unsaved) PlaceCode(uint64) error { return NotSupported.Err() }

// LoadCode implements Saving.
func (Unsaved) LoadCode(Library) Result { return NotSupported }

// EventTimes implements Saving.
func (Unsaved) EventTimes([]Event) []EventTime { return nil }

// SetEventTimes implements Saving.
func (Unsaved) SetEventTimes([]EventTime) Result { return NotSupported }

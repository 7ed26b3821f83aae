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

// Code is where the variables of code are in a context: those of a module that was loaded as such,
// or of a library. Without a variable the address is 0.
type Code struct {
	Address uint64
	Module  Module // 0: it is the library's
	Library Library
	Context Context
}

// EventTime is when an event was over that was recorded, in nanoseconds before now. Context is that
// which the device needs to know to tell times; 0: none.
type EventTime struct {
	Event   Event
	Ago     int64
	Context Context
}

// Saving has another device, in another process, be what this one is: the same objects with all
// their memory at the same addresses. What made the objects the caller knows, and does it again.
// All work is done meanwhile, and no stream captures.
//
// The other device is opened as this one was, and then RestoreLayout comes before all else. Each
// object is made as it was made here, but code only after PlaceCode, and code of a library by
// LoadCode as soon as there is both library and context. TakeAllocation takes over what MemAlloc
// has given. LayoutRestored says whether that was all. What is in the memory is copied by Moving.
type Saving interface {
	SavingGraphs
	SavingTextures
	// AwaitsHost says whether nothing goes on any more but host functions that have been called,
	// and don't return: what follows them hasn't begun. False if the device can't tell.
	AwaitsHost() bool
	// Saves says whether the device can be saved at all.
	Saves() bool
	// Unsavable says why the device's state can't be saved now; "": it can.
	Unsavable() string
	// UnsavableCode says why code of an image can't be made again so that nobody notices; "": it
	// can. What it reads counts for mem.
	UnsavableCode(image []byte, mem *budget.Account) string
	// SaveLayout writes what lies where in device memory. RestoreLayout reads it.
	SaveLayout(to io.Writer) error
	RestoreLayout(from io.Reader) error
	LayoutRestored() error
	// Allocated lists the memory of MemAlloc.
	Allocated() []Allocation
	// TakeAllocation makes memory one of the current context's.
	TakeAllocation(a Allocation) Result
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

// SPDX-License-Identifier: Apache-2.0

package gpubackend

// Sharing is device memory and events that several processes of a guest use.
type Sharing interface {
	// Share gives a file for the memory around addr: its size, and where in it addr is. The caller
	// closes the file.
	Share(addr uint64) (s Shared, fd int, result Result)
	// Watch has gone called with the address and length of each piece of memory that Share gives
	// files for, before the device gives it up.
	Watch(gone func(addr, bytes uint64))
	// MapShared maps the memory of such a file into the current context. The caller keeps the file
	// and may close it.
	MapShared(s Shared, fd int) (addr uint64, result Result)
	// TakeShared is MapShared in a device that is being restored, at the address that the memory
	// had.
	TakeShared(addr uint64, s Shared, fd int) Result
	// UnmapShared unmaps it. No work may use it any more.
	UnmapShared(addr uint64) Result
	// ShareEvent returns what another process needs to open an interprocess event: a SharedEvent
	// and a file, or -1 for none. The caller closes the file.
	ShareEvent(e Event) (s SharedEvent, fd int, result Result)
	// OpenEvent opens such an event in the current context. The caller keeps the file and may close
	// it.
	OpenEvent(s SharedEvent, fd int) (Event, Result)
}

// SharedEvent is what a driver tells another process's driver about an event. It never comes from a
// guest.
type SharedEvent [64]byte

// Shared describes a file of shared memory.
type Shared struct {
	Start, Bytes uint64 // the memory in the file
	Offset       uint64 // of the address in the memory
	Allocated    bool   // an allocation begins at the address
}

// Share returns NotSupported.
func (Unsupported) Share(uint64) (Shared, int, Result) { return Shared{}, -1, NotSupported }

// Watch calls nothing: there is no memory.
func (Unsupported) Watch(func(addr, bytes uint64)) {}

// MapShared returns NotSupported.
func (Unsupported) MapShared(Shared, int) (uint64, Result) { return 0, NotSupported }

// TakeShared returns NotSupported.
func (Unsupported) TakeShared(uint64, Shared, int) Result { return NotSupported }

// UnmapShared returns NotSupported.
func (Unsupported) UnmapShared(uint64) Result { return NotSupported }

// ShareEvent returns NotSupported.
func (Unsupported) ShareEvent(Event) (SharedEvent, int, Result) {
	return SharedEvent{}, -1, NotSupported
}

// OpenEvent returns NotSupported.
func (Unsupported) OpenEvent(SharedEvent, int) (Event, Result) { return 0, NotSupported }

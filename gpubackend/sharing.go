// SPDX-License-Identifier: Apache-2.0

package gpubackend

// Sharing is device memory that several processes of a guest use.
type Sharing interface {
	// Share gives a file for the memory around addr: its size, and where in it addr is. The caller closes the file.
	Share(addr uint64) (s Shared, fd int, result Result)
	// MapShared maps the memory of such a file into the current context. The caller keeps the file and may close it.
	MapShared(s Shared, fd int) (addr uint64, result Result)
	// UnmapShared unmaps it. No work may use it any more.
	UnmapShared(addr uint64) Result
}

// Shared describes a file of shared memory.
type Shared struct {
	Start, Bytes uint64 // the memory in the file
	Offset       uint64 // of the address in the memory
}

// Share returns NotSupported.
func (Unsupported) Share(uint64) (Shared, int, Result) { return Shared{}, -1, NotSupported }

// MapShared returns NotSupported.
func (Unsupported) MapShared(Shared, int) (uint64, Result) { return 0, NotSupported }

// UnmapShared returns NotSupported.
func (Unsupported) UnmapShared(uint64) Result { return NotSupported }

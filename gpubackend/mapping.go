// SPDX-License-Identifier: Apache-2.0

package gpubackend

import "github.com/paracuda/paracuda/gpubackend/cudaabi"

// Addresses is how many addresses a program of x86-64 has with page tables of four levels, and more
// than the distance of any two. The addresses of a GPU are among them.
const Addresses = 1 << 47

// Memory is device memory without an address, of CreateMemory: by its own number, which it keeps in
// another process (Saving). What is imported has other numbers.
type Memory uint64

// Granularity: the sizes and addresses of Mapping are multiples of it.
const Granularity = cudaabi.MappingGranularity

// Access to mapped memory: CUmemAccess_flags.
const (
	AccessNone      = 0
	AccessRead      = 1
	AccessReadWrite = 3
)

// Mapping is virtual memory management: addresses and memory are separate. Nothing in it needs a
// current context. The caller makes sure that what it unmaps isn't in use, that mappings don't
// overlap and that memory outlives its mappings.
type Mapping interface {
	// Reserve sets exactly these addresses of this process aside.
	Reserve(addr, bytes uint64) Result
	// Unreserve gives them back.
	Unreserve(addr, bytes uint64) Result
	// CreateMemory makes memory of a device.
	CreateMemory(bytes, device, compression uint64) (Memory, Result)
	// ReleaseMemory gives it back.
	ReleaseMemory(m Memory) Result
	// ExportMemory gives a file by which another process imports m. The file keeps the memory alive
	// by itself. The caller closes it.
	ExportMemory(m Memory) (fd int, result Result)
	// ImportMemory opens what another process's ExportMemory gave: bytes of a device's memory. The
	// caller keeps the file and may close it. The memory counts as CreateMemory's does.
	ImportMemory(fd int, bytes, device uint64) (Memory, Result)
	// MapMemory puts all of m at reserved addresses. Nobody may access it before Protect.
	MapMemory(addr, bytes uint64, m Memory) Result
	// UnmapMemory undoes a MapMemory.
	UnmapMemory(addr, bytes uint64) Result
	// Protect says how a device may access one mapping.
	Protect(addr, bytes, device, access uint64) Result
}

// Reserve returns NotSupported.
func (Unsupported) Reserve(uint64, uint64) Result { return NotSupported }

// Unreserve returns NotSupported.
func (Unsupported) Unreserve(uint64, uint64) Result { return NotSupported }

// CreateMemory returns NotSupported.
func (Unsupported) CreateMemory(uint64, uint64, uint64) (Memory, Result) { return 0, NotSupported }

// ReleaseMemory returns NotSupported.
func (Unsupported) ReleaseMemory(Memory) Result { return NotSupported }

// ExportMemory returns NotSupported.
func (Unsupported) ExportMemory(Memory) (int, Result) { return -1, NotSupported }

// ImportMemory returns NotSupported.
func (Unsupported) ImportMemory(int, uint64, uint64) (Memory, Result) { return 0, NotSupported }

// MapMemory returns NotSupported.
func (Unsupported) MapMemory(uint64, uint64, Memory) Result { return NotSupported }

// UnmapMemory returns NotSupported.
func (Unsupported) UnmapMemory(uint64, uint64) Result { return NotSupported }

// Protect returns NotSupported.
func (Unsupported) Protect(uint64, uint64, uint64, uint64) Result { return NotSupported }

// SPDX-License-Identifier: Apache-2.0

package cmem

// #include <stdlib.h>
// #include <string.h>
import "C"

import "unsafe"

// Memory is memory of C: the driver may be given its address, and it doesn't move.
type Memory struct {
	p unsafe.Pointer
	n int
}

// Allocate returns n zeroed bytes. C's allocator aligns them to 16.
func Allocate(n int) Memory {
	if n <= 0 {
		n = 1
	}
	p := C.calloc(1, C.size_t(n))
	if p == nil {
		panic("cuda: the host has no memory for a call of the driver")
	}
	return Memory{p, n}
}

// Free gives the memory back; the zero value has nothing to give.
func (b *Memory) Free() {
	if b.p != nil {
		C.free(b.p)
	}
	*b = Memory{}
}

// Bytes is the memory as a slice, which must not outlive it.
func (b Memory) Bytes() []byte {
	// SAFETY: p points to n bytes of C memory, which the garbage collector neither moves nor frees.
	return unsafe.Slice((*byte)(b.p), b.n)
}

// Len is how many bytes the memory has.
func (b Memory) Len() int { return b.n }

// Address is what the driver is given; 0 for the zero value.
func (b Memory) Address() uint64 { return uint64(uintptr(b.p)) }

// Pointer is the address for calls of C.
func (b Memory) Pointer() unsafe.Pointer { return b.p }

// AddressOf is the address of a caller's slice for the duration of one call into the driver. The
// caller keeps the slice alive; it must not be on a goroutine's stack, which slices that came
// through an interface are not.
func AddressOf(s []byte) uint64 {
	// SAFETY: the number is only used while the slice is reachable, and the heap's objects don't
	// move.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s))))
}

// TextAt copies a C string that the driver owns. It is called only with addresses that the driver
// has just returned.
func TextAt(address uint64) string {
	if address == 0 {
		return ""
	}
	n := C.strlen((*C.char)(Pointer(address)))
	return C.GoStringN((*C.char)(Pointer(address)), C.int(min(n, 1<<16)))
}

// Pointer turns an address that the driver returned back into a pointer.
func Pointer(address uint64) unsafe.Pointer {
	// SAFETY: the address is of C memory. It is read through a pointer to the number since vet
	// takes a converted number for a Go address.
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// At returns device-visible host memory (of cuMemHostAlloc, or registered) as a slice.
func At(address uint64, n int) []byte {
	// SAFETY: the caller passes what the driver returned for an allocation of n bytes, or a range
	// that is registered, and drops the slice before it is freed.
	return unsafe.Slice((*byte)(Pointer(address)), n)
}

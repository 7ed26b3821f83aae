// SPDX-License-Identifier: Apache-2.0

package cuda

// #include <stdlib.h>
// #include <string.h>
import "C"

import "unsafe"

// block is memory of C: the driver may be given its address, and it doesn't move.
type block struct {
	p unsafe.Pointer
	n int
}

// allocate returns n zeroed bytes. C's allocator aligns them to 16.
func allocate(n int) block {
	if n <= 0 {
		n = 1
	}
	p := C.calloc(1, C.size_t(n))
	if p == nil {
		panic("cuda: out of memory")
	}
	return block{p, n}
}

// free gives the block back; the zero block has nothing to give.
func (b *block) free() {
	if b.p != nil {
		C.free(b.p)
	}
	*b = block{}
}

// bytes is the block as a slice, which must not outlive it.
func (b block) bytes() []byte {
	// SAFETY: p points to n bytes of C memory, which the garbage collector neither moves nor frees.
	return unsafe.Slice((*byte)(b.p), b.n)
}

// address is what the driver is given.
func (b block) address() uint64 { return uint64(uintptr(b.p)) }

// copied returns a block with the content of s and at least pad zero bytes after it.
func copied(s []byte, pad int) block {
	b := allocate(len(s) + pad)
	copy(b.bytes(), s)
	return b
}

// addressOf is the address of a caller's slice for the duration of one call into the driver. The caller keeps
// the slice alive; it must not be on a goroutine's stack, which slices that came through an interface are not.
func addressOf(s []byte) uint64 {
	// SAFETY: the number is only used while the slice is reachable, and the heap's objects don't move.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s))))
}

// textAt copies a C string that the driver owns. Only addresses that the driver has just returned come here.
func textAt(address uint64) string {
	if address == 0 {
		return ""
	}
	n := C.strlen((*C.char)(cPointer(address)))
	return C.GoStringN((*C.char)(cPointer(address)), C.int(min(n, 1<<16)))
}

// cPointer makes an address that the driver returned a pointer again.
func cPointer(address uint64) unsafe.Pointer {
	// SAFETY: the address is of C memory. Reading it through a pointer to the number, and not converting the
	// number, is the form that vet knows to be no Go address in disguise.
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// at returns device-visible host memory (of cuMemHostAlloc, or registered) as a slice.
func at(address uint64, n int) []byte {
	// SAFETY: the caller passes what the driver returned for an allocation of n bytes, or a range that is registered,
	// and drops the slice before it is freed.
	return unsafe.Slice((*byte)(cPointer(address)), n)
}

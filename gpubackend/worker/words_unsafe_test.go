// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// word returns the first word of b for atomic access.
func word(b []byte) *uint32 {
	// SAFETY: b is part of a Go allocation of bytes that is aligned to more than 4, at an offset
	// that is a multiple of 4.
	return (*uint32)(unsafe.Pointer(&b[0]))
}

// futexWake wakes all that sleep on a word, in other processes too.
func futexWake(p *uint32) {
	const wake = 1
	// SAFETY: the kernel takes only the address; the word lies in a mapping that outlives the call.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p)), wake, 1<<30, 0, 0, 0)
}

// addressOf is where b lies.
func addressOf(b []byte) uint64 {
	// SAFETY: a number is made of the address, nothing is read there.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

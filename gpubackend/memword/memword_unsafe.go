// SPDX-License-Identifier: Apache-2.0

// Package memword gives atomic access to words of memory that other processes use at the same time,
// which may be a guest's: what is read may be anything, and another time something else.
//
// The memory must be part of a mapping, at an offset that is a multiple of the word's size, and
// stay mapped for as long as the word is used. That it is long enough is checked.
package memword

import (
	"sync/atomic"
	"unsafe"
)

// Of32 returns the first four bytes of b.
func Of32(b []byte) *uint32 {
	b = b[:4:len(b)] // is long enough, and no byte of it is read
	// SAFETY: a mapping begins at a page, so the word is aligned, and b has its 4 bytes.
	return (*uint32)(unsafe.Pointer(&b[0]))
}

// Of64 returns the first eight bytes of b.
func Of64(b []byte) *uint64 {
	b = b[:8:len(b)]
	// SAFETY: as in Of32, with 8 bytes.
	return (*uint64)(unsafe.Pointer(&b[0]))
}

// Atomic64 is Of64 with methods.
func Atomic64(b []byte) *atomic.Uint64 {
	b = b[:8:len(b)]
	// SAFETY: as in Of32. An atomic.Uint64 is 8 bytes without pointers.
	return (*atomic.Uint64)(unsafe.Pointer(&b[0]))
}

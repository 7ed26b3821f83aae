// SPDX-License-Identifier: Apache-2.0

package gate

import "unsafe"

// word32 returns the first word of b for atomic access.
// SAFETY: b is part of a mapping, which begins
// at a page, and every offset used is a multiple of 4; the read of b[3] checks the length.
func word32(b []byte) *uint32 {
	_ = b[3]
	return (*uint32)(unsafe.Pointer(&b[0]))
}

// word64 is the same with 8 bytes.
func word64(b []byte) *uint64 {
	_ = b[7]
	return (*uint64)(unsafe.Pointer(&b[0]))
}

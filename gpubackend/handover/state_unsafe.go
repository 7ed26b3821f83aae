// SPDX-License-Identifier: Apache-2.0

package handover

import "unsafe"

// word32 returns the first word of b for atomic access.
func word32(b []byte) *uint32 {
	_ = b[3]
	// SAFETY: b is part of a page-aligned mapping at an offset that is a multiple of 8, and has 4
	// bytes.
	return (*uint32)(unsafe.Pointer(&b[0]))
}

// word64 returns the first double word of b for atomic access.
func word64(b []byte) *uint64 {
	_ = b[7]
	// SAFETY: as word32, with 8 bytes.
	return (*uint64)(unsafe.Pointer(&b[0]))
}

// SPDX-License-Identifier: Apache-2.0

package mover

import "unsafe"

// word returns the first four bytes of b for atomic access.
func word(b []byte) *uint32 {
	_ = b[3]
	// SAFETY: b is part of the mapped ring, or of guest memory, at an offset that is a multiple of
	// 4, and has 4 bytes.
	return (*uint32)(unsafe.Pointer(&b[0]))
}

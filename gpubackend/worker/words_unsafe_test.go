// SPDX-License-Identifier: Apache-2.0

package worker

import "unsafe"

// word returns the first word of b for atomic access.
func word(b []byte) *uint32 {
	// SAFETY: b is part of a Go allocation of bytes that is aligned to more than 4, at an offset that is a multiple of 4.
	return (*uint32)(unsafe.Pointer(&b[0]))
}

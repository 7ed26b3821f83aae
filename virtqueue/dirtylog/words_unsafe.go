// SPDX-License-Identifier: Apache-2.0

package dirtylog

import (
	"sync/atomic"
	"unsafe"
)

// or sets bits of the word at an offset, in one step with respect to the front end, which fetches
// and clears whole words.
func or(b []byte, off, bits uint64) {
	_ = b[off+7]
	// SAFETY: all eight bytes are inside b, which mmap has aligned to a page; the callers pass
	// offsets that are multiples of 8.
	atomic.OrUint64((*uint64)(unsafe.Pointer(&b[off])), bits)
}

// addr is where a mapping is.
func addr(b []byte) uintptr {
	// SAFETY: the address is only compared with one that faulted; mapped memory never moves.
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

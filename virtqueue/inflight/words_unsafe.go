// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"sync/atomic"
	"unsafe"
)

// load reads the word at an offset, once and whole, whatever the front end does to it meanwhile.
func load(b []byte, off int) uint64 {
	_ = b[off+7]
	// SAFETY: all eight bytes are inside b, which begins at a multiple of 64; the callers pass
	// offsets that are multiples of 8.
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[off])))
}

// store writes the word at an offset. Stores become visible in their order.
func store(b []byte, off int, v uint64) {
	_ = b[off+7]
	// SAFETY: as in load.
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[off])), v)
}

// addr is where a mapping is.
func addr(b []byte) uintptr {
	// SAFETY: the address is only compared with one that faulted; mapped memory never moves.
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

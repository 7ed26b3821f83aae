// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"sync/atomic"
	"unsafe"
)

// load16 reads a word of a ring with a single load. Go has no 16-bit atomics: the order against
// other accesses comes from the 32-bit atomics and fences around it.
func load16(b []byte, off int) uint16 {
	_ = b[off+1]
	// SAFETY: both bytes are inside b; the rings are aligned to 2 (checked by New).
	return *(*uint16)(unsafe.Pointer(&b[off]))
}

// store16 writes a word of a ring with a single store.
func store16(b []byte, off int, v uint16) {
	_ = b[off+1]
	// SAFETY: both bytes are inside b; the rings are aligned to 2 (checked by New).
	*(*uint16)(unsafe.Pointer(&b[off])) = v
}

// load32 reads a word atomically; later accesses are not moved before it.
func load32(b []byte, off int) uint32 {
	_ = b[off+3]
	// SAFETY: all four bytes are inside b; the callers pass offsets aligned to 4.
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[off])))
}

// store32 writes a word atomically; earlier accesses are not moved after it.
func store32(b []byte, off int, v uint32) {
	_ = b[off+3]
	// SAFETY: all four bytes are inside b; the callers pass offsets aligned to 4.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[off])), v)
}

// store64 writes a used element with a single store, so that the driver never sees half of one.
func store64(b []byte, off int, v uint64) {
	_ = b[off+7]
	// SAFETY: all eight bytes are inside b. The used ring is aligned to 4 only, which the
	// processors that Go runs on accept for a plain store.
	*(*uint64)(unsafe.Pointer(&b[off])) = v
}

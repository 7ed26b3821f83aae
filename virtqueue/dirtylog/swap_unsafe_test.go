// SPDX-License-Identifier: Apache-2.0

package dirtylog

import (
	"sync/atomic"
	"unsafe"
)

// swap fetches and clears a word, as a front end does.
func swap(b []byte, off uint64) uint64 {
	_ = b[off+7]
	// SAFETY: as in or.
	return atomic.SwapUint64((*uint64)(unsafe.Pointer(&b[off])), 0)
}

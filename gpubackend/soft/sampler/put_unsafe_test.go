// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"sync"
	"unsafe"
)

// texelsOfTests keeps all that put has returned addresses of, for tests that run in parallel.
var texelsOfTests struct {
	mu   sync.Mutex
	kept []any
}

// put returns the address of texels, and keeps them there.
func put[T any](texels []T) uint64 {
	texelsOfTests.mu.Lock()
	defer texelsOfTests.mu.Unlock()
	texelsOfTests.kept = append(texelsOfTests.kept, texels)
	// SAFETY: the list keeps the memory, and Go's heap doesn't move.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(texels))))
}

// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend/soft/space"

// wordAt returns a word of mapped memory outside the Go heap.
func wordAt(addr uint64) *uint32 {
	// SAFETY: tests pass aligned addresses of their own mappings.
	return (*uint32)(space.Pointer(addr))
}

// SPDX-License-Identifier: Apache-2.0

package sampler

import "unsafe"

// stored reads a channel of size bytes.
func stored(p uintptr, size uint8) uint64 {
	// SAFETY: a Texture's caller has checked that the memory of its levels is mapped and stays so,
	// and coordinates are kept within a level.
	at := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	switch size {
	case 1:
		return uint64(*(*uint8)(at))
	case 2:
		return uint64(*(*uint16)(at))
	case 4:
		return uint64(*(*uint32)(at))
	}
	return *(*uint64)(at)
}

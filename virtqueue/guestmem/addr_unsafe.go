// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Addr returns the host address of a non-empty slice of guest memory, for code that hands it to
// the kernel or to C. It stays valid until Close.
func Addr(b []byte) uintptr {
	// SAFETY: the address is only computed, not used; mapped memory never moves.
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// holdsAddr reports whether a host address lies in one of the mappings.
func (m *Memory) holdsAddr(addr uintptr) bool {
	for i := range m.maps {
		if holds(m.maps[i].whole, addr) {
			return true
		}
	}
	return false
}

// holds reports whether an address lies in b, which isn't empty.
func holds(b []byte, addr uintptr) bool {
	return addr >= Addr(b) && addr-Addr(b) < uintptr(len(b))
}

// replace maps something else at the addresses of b: all of it, or nothing after an error.
func replace(b []byte, fd int, offset uint64, prot, flags int) error {
	// SAFETY: b is a part of what a Memory has reserved, outside Go's heap, and stays mapped. Who
	// touches it meanwhile sees what is there before or afterwards.
	_, err := unix.MmapPtr(fd, int64(offset), unsafe.Pointer(unsafe.SliceData(b)),
		uintptr(len(b)), prot, flags|unix.MAP_FIXED)
	return err
}

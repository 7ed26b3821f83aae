// SPDX-License-Identifier: Apache-2.0

package guestmem

import "unsafe"

// Addr returns the host address of a non-empty slice of guest memory, for code that hands it to
// the kernel or to C. It stays valid until Close.
func Addr(b []byte) uintptr {
	// SAFETY: the address is only computed, not used; mapped memory never moves.
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// holdsAddr reports whether a host address lies in one of the mappings.
func (m *Memory) holdsAddr(addr uintptr) bool {
	for i := range m.maps {
		base := Addr(m.maps[i].whole)
		if addr >= base && addr-base < uintptr(len(m.maps[i].whole)) {
			return true
		}
	}
	return false
}

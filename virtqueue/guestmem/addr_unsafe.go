// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/asked"
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

// replace maps something else at the addresses of b. After an error what was there is still there,
// or gone, as the kernel may unmap it and fail then: nothing can be touched there in that case, and
// nobody else is given the addresses.
func replace(b []byte, fd int, offset uint64, prot, flags int) (gone bool, err error) {
	// SAFETY: b is a part of what a Memory has reserved, outside Go's heap, and stays mapped. Who
	// touches it meanwhile sees what is there before or afterwards.
	at, n := unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))
	err = asked.Call(func() error {
		_, err := unix.MmapPtr(fd, int64(offset), at, n, prot, flags|unix.MAP_FIXED)
		return err
	})
	if err == nil {
		return false, nil
	}
	// SAFETY: this maps nothing over what is there.
	_, there := unix.MmapPtr(-1, 0, at, n, unix.PROT_NONE, hidden|unix.MAP_FIXED_NOREPLACE)
	return there != unix.EEXIST, err
}

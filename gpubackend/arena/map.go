// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Map maps runs of guest memory, in order, to one range of this process's addresses. It is undone by the
// returned function. Runs must be whole pages. Where addr is not 0 the range is mapped there, and only if
// nothing else is.
func Map(mem *guestmem.Memory, runs []guestmem.Run, addr uintptr) (b []byte, unmap func(), err error) {
	total := uint64(0)
	for _, r := range runs {
		total += uint64(len(r.Bytes))
	}
	base, err := reserve(addr, uintptr(total))
	if err != nil {
		return nil, nil, fmt.Errorf("reserve %d bytes: %w", total, err)
	}
	unmap = func() { release(base, uintptr(total)) }
	at := base
	for _, r := range runs {
		if err := mapFixed(at, r); err != nil {
			unmap()
			return nil, nil, fmt.Errorf("map a run of %d bytes: %w", len(r.Bytes), err)
		}
		at += uintptr(len(r.Bytes))
	}
	return slice(base, total), unmap, nil
}

// reserve takes a range of addresses that nothing can be written to.
func reserve(addr, size uintptr) (uintptr, error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	if addr != 0 {
		flags |= unix.MAP_FIXED_NOREPLACE
	}
	return mmap(addr, size, unix.PROT_NONE, flags, -1, 0)
}

func mapFixed(at uintptr, r guestmem.Run) error {
	_, err := mmap(at, uintptr(len(r.Bytes)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED, r.FD, r.FileOffset)
	return err
}

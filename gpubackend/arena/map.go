// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Map maps runs of guest memory, in order, to one range of this process's addresses. The returned
// function undoes it. Runs must be whole pages. If addr isn't 0 the range is mapped there, but only
// if nothing else is there.
func Map(runs []guestmem.Run, addr uintptr, writable bool) (b []byte, unmap func(), err error) {
	total := uint64(0)
	for _, r := range runs {
		total += uint64(len(r.Bytes))
	}
	base, err := reserve(addr, uintptr(total))
	if err != nil {
		return nil, nil, fmt.Errorf("reserve %d bytes: %w", total, err)
	}
	unmap = func() { release(base, uintptr(total)) }
	if err := Put(runs, base, writable); err != nil {
		unmap()
		return nil, nil, err
	}
	return slice(base, total), unmap, nil
}

// Reserve takes a range of addresses, if nothing is there, that can be neither read nor written.
// The returned function undoes it.
func Reserve(addr, size uintptr) (undo func(), err error) {
	if _, err := reserve(addr, size); err != nil {
		return nil, fmt.Errorf("reserve %d bytes at %#x: %w", size, addr, err)
	}
	return func() { release(addr, size) }, nil
}

// Unmap undoes Map for a part of its range.
func Unmap(addr, size uintptr) {
	if size > 0 {
		release(addr, size)
	}
}

// Put maps runs of guest memory, in order, at addresses that the caller has reserved, in place of
// what is there: whoever reads them meanwhile sees the old or the new. After an error some runs are
// mapped and some aren't.
func Put(runs []guestmem.Run, addr uintptr, writable bool) error {
	for i := range runs {
		r := &runs[i]
		prot, fd, flags := r.File(writable)
		if _, err := mmap(addr, uintptr(len(r.Bytes)), prot, flags|unix.MAP_FIXED, fd,
			r.FileOffset); err != nil {
			return fmt.Errorf("map a run of %d bytes: %w", len(r.Bytes), err)
		}
		addr += uintptr(len(r.Bytes))
	}
	return nil
}

// reserve takes a range of addresses that can be neither read nor written.
func reserve(addr, size uintptr) (uintptr, error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	if addr != 0 {
		flags |= unix.MAP_FIXED_NOREPLACE
	}
	return mmap(addr, size, unix.PROT_NONE, flags, -1, 0)
}

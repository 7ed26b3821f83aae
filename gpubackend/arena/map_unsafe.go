// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/asked"
)

// mmap is the system call by itself: its result is an address outside Go's memory, so it stays a
// number.
func mmap(addr, size uintptr, prot, flags, fd int, offset uint64) (uintptr, error) {
	var p uintptr
	err := asked.Call(func() error {
		r, _, errno := unix.Syscall6(unix.SYS_MMAP, addr, size, uintptr(prot), uintptr(flags),
			uintptr(fd), uintptr(offset))
		if errno != 0 {
			return errno
		}
		p = r
		return nil
	})
	return p, err
}

func release(addr, size uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MUNMAP, addr, size, 0)
}

func slice(addr uintptr, n uint64) []byte {
	// SAFETY: [addr, addr+n) is mapped, outside Go's heap, until release. The number is read as a
	// pointer, since it never was a Go pointer that the collector could move.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}

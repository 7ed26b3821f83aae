// SPDX-License-Identifier: Apache-2.0

package guestmem

import (
	"testing"

	"golang.org/x/sys/unix"
)

// free says whether another mapping may have the addresses of b.
func free(b []byte) bool {
	_, _, err := unix.Syscall6(unix.SYS_MMAP, Addr(b), uintptr(len(b)), unix.PROT_NONE,
		hidden|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
	return err != unix.EEXIST
}

// TestReplaceFails: what was there stays, or, where the kernel has unmapped it before it failed,
// nobody else is given the addresses.
func TestReplaceFails(t *testing.T) {
	size := uint64(unix.Getpagesize())
	whole, _, err := reserve(3*size, size)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(whole)
	b := whole[size : 2*size]
	for _, unmapped := range []bool{false, true} {
		if unmapped {
			if _, _, err := unix.Syscall(unix.SYS_MUNMAP, Addr(b), uintptr(size), 0); err != 0 {
				t.Fatal(err)
			}
		}
		gone, err := replace(b, -1, 0, unix.PROT_READ, unix.MAP_SHARED)
		if err != unix.EBADF || gone != unmapped || free(b) {
			t.Errorf("unmapped %t: it is gone: %t, %v", unmapped, gone, err)
		}
	}
	if gone, err := replace(b, -1, 0, unix.PROT_READ, hidden); gone || err != nil {
		t.Errorf("it is gone: %t, %v", gone, err)
	}
}

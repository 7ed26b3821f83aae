// SPDX-License-Identifier: Apache-2.0

package memfd

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Make makes a file for a worker, as New does. Where another process decides on that, it makes the
// file, by what the call's registers say; otherwise the kernel ignores those.
func Make(f Form) (int, error) {
	if err := f.Check(); err != nil {
		return -1, err
	}
	name, err := unix.BytePtrFromString(f.Name())
	if err != nil {
		return -1, fmt.Errorf("create %s: %w", f.Name(), err)
	}
	// SAFETY: the kernel reads the name during the call, and keeps nothing that points here.
	fd, _, errno := unix.Syscall6(unix.SYS_MEMFD_CREATE, uintptr(unsafe.Pointer(name)), makeFlags,
		uintptr(f.Bytes), uintptr(f.Word()), 0, 0)
	if errno != 0 {
		return -1, fmt.Errorf("create %s: %w", f.Name(), errno)
	}
	if Sealed(int(fd), f.Bytes) {
		return int(fd), nil
	}
	return fix(int(fd), f.Name(), f.Bytes)
}

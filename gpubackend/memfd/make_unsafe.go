// SPDX-License-Identifier: Apache-2.0

package memfd

import (
	"errors"
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
	fd, err := create(name, f)
	for i := 0; err == nil && fd == 0 && i < answers; i++ { // which is standard input
		fd, err = create(name, f)
	}
	if err != nil {
		return -1, fmt.Errorf("create %s: %w", f.Name(), err)
	}
	if fd == 0 {
		return -1, fmt.Errorf("create %s: %w", f.Name(), errNoFile)
	}
	if Sealed(fd, f.Bytes) {
		return fd, nil
	}
	return fix(fd, f.Name(), f.Bytes)
}

// answers is how often a call is made again that was answered without a file. The kernel does so if
// a signal interrupts the one who answers.
const answers = 100

var errNoFile = errors.New("it is answered without a file")

func create(name *byte, f Form) (fd int, err error) {
	// SAFETY: the kernel reads the name during the call, and keeps nothing that points here.
	r, _, errno := unix.Syscall6(unix.SYS_MEMFD_CREATE, uintptr(unsafe.Pointer(name)), makeFlags,
		uintptr(f.Bytes), uintptr(f.Word()), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// SPDX-License-Identifier: Apache-2.0

package mapleave

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// The kernel's structures (seccomp.h).
type (
	notified struct {
		id        uint64
		_         [2]uint32 // thread, flags
		call      int32
		arch      uint32
		_         uint64 // address of the instruction
		arguments [6]uint64
		_         [256]byte // later kernels may write more
	}
	decision struct {
		id    uint64
		value int64 // what the call returns
		error int32
		flags uint32
	}
	handed struct {
		id                              uint64
		flags, from, number, givenFlags uint32
	}
)

// syncWakeUp is SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP.
const syncWakeUp = 1

// runTogether has the kernel run who asks and who answers on one processor: only one of them runs
// at a time, and no other processor has to be woken. An older kernel refuses, and wakes as usual.
func runTogether(listener int) {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), sandbox.SetListenerFlags,
		syncWakeUp)
}

// request asks a listener something. The kernel reads and writes what p points to during the call,
// and keeps nothing that points here.
func request[T notified | decision | handed](listener int, number uintptr, p *T) error {
	_, err := requested(listener, number, p)
	return err
}

// requested is request that returns what the kernel answers.
func requested[T notified | decision | handed](
	listener int, number uintptr, p *T,
) (uintptr, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), number,
			uintptr(unsafe.Pointer(p)))
		if errno == 0 {
			return r, nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

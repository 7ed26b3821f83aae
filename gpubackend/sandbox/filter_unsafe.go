// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setFilter makes the kernel run a program, which isn't empty, before each system call of the
// calling thread, or with SECCOMP_FILTER_FLAG_TSYNC of all threads of this process, now and later.
// From then on they can't gain privileges: without that, only root may do this. What it returns
// depends on the flags: a thread that has a filter of its own, or a listener.
func setFilter(flags uintptr, program []unix.SockFilter) (uintptr, error) {
	runtime.LockOSThread() // what prctl says holds for this thread, until seccomp spreads it
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("rule out new privileges: %w", err)
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// The kernel copies the program during the call, and keeps nothing that points here.
	value, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return 0, errno
	}
	return value, nil
}

// CanFilter says why Filter can't succeed in this process, if the kernel or an outer filter
// prevents it. It changes nothing.
func CanFilter() error {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	// The kernel reads the action during the call, and keeps nothing that points here.
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0,
		uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	// There is no program at this address: a kernel that accepts filters answers EFAULT.
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, 0); errno != unix.EFAULT {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// onAll makes a system call on all threads of this process.
func onAll(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, err := psx.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); err != 0 {
		return err
	}
	return nil
}

// forgo rules out new privileges, by prctl for one thread or for all. mask has the capabilities
// that executed programs may have; missing says why others couldn't be taken from them.
func forgo(prctl func(option int, a, b uintptr) error, mask [2]uint32) (missing, err error) {
	if err := prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return nil, fmt.Errorf("rule out new privileges: %w", err)
	}
	if err := prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return nil, fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for number := uintptr(0); ; number++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, number, 0, 0, 0)
		if err != nil { // there are no further capabilities
			return nil, nil
		}
		if has == 0 || mask[number/32]&(1<<(number%32)) != 0 {
			continue
		}
		if err := prctl(unix.PR_CAPBSET_DROP, number, 0); err != nil {
			return fmt.Errorf("drop capabilities: %w", err), nil
		}
	}
}

// forgoOnAll does so for all threads of this process.
func forgoOnAll(mask [2]uint32) (missing, err error) {
	return forgo(func(option int, a, b uintptr) error {
		return onAll(unix.SYS_PRCTL, uintptr(option), a, b)
	}, mask)
}

// masked has a bit for each of these capabilities.
func masked(numbers []uint) (mask [2]uint32) {
	for _, number := range numbers {
		mask[number/32] |= 1 << (number % 32)
	}
	return mask
}

// PassOn takes all capabilities except these from this process and from those that it will start.
// Root's processes have these from the start, if this process has them; executing a program gives
// none. missing is as for KeepOnly.
func PassOn(kept ...uint) (missing, err error) {
	mask := masked(kept)
	if missing, err = forgoOnAll(mask); err != nil {
		return nil, err
	}
	return missing, limitCapabilities(mask)
}

// KeepOnly takes all capabilities except these from this process, and rules out new ones. missing
// says why it couldn't take some from programs that it executes.
func KeepOnly(kept ...uint) (missing, err error) {
	if missing, err = forgoOnAll([2]uint32{}); err != nil {
		return nil, err
	}
	return missing, limitCapabilities(masked(kept))
}

// limitCapabilities takes from all threads the capabilities that aren't in mask.
func limitCapabilities(mask [2]uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if sets[0].Permitted&^mask[0]|sets[1].Permitted&^mask[1]|
		sets[0].Inheritable|sets[1].Inheritable == 0 {
		return nil // a service manager that has taken them all may forbid the call too
	}
	for i := range sets {
		sets[i].Effective &= mask[i]
		sets[i].Permitted &= mask[i]
		sets[i].Inheritable = 0
	}
	if err := capsetOnAll(&header, &sets); err != nil {
		return fmt.Errorf("give capabilities up: %w", err)
	}
	return nil
}

// has says whether this process has a capability.
func has(number uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil &&
		sets[number/32].Effective&(1<<(number%32)) != 0
}

// Apart gives children of the calling thread a network and an IPC namespace, which they share:
// there is no network in it, and none of others' abstract sockets.
func Apart() error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	return nil
}

// Alone gives children of the calling thread a mount and a PID namespace, which they share. The
// next child is the first process of the PID namespace: all end when it does, and none can be made
// to end with its parent, which it can't see. The thread can no longer make threads.
func Alone() error {
	_, _ = os.FindProcess(os.Getpid()) // the first call starts a child as a test
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("make namespaces of files and processes: %w", err)
	}
	return nil
}

// MayBeApart says whether this process may call Apart.
func MayBeApart() bool { return has(unix.CAP_SYS_ADMIN) }

// InUserNamespace makes a child begin in a user namespace of its own, in which it is root: it may
// call Apart there. Elsewhere it has only the rights of this process's user. It fails where this
// process can't make one.
func InUserNamespace(attr *syscall.SysProcAttr) error {
	if err := tryUserNamespace(); err != nil {
		return fmt.Errorf("make a user namespace: %w", err)
	}
	one := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{HostID: id, Size: 1}}
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings, attr.GidMappings = one(unix.Geteuid()), one(unix.Getegid())
	return nil
}

// tryUserNamespace has a child begin in a user namespace without mappings. Of one with mappings
// that can't be made, package syscall leaves two descriptors open. The child is to execute a
// program that isn't there, which it notices when it has been made.
func tryUserNamespace() error {
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}}
	if _, err := syscall.ForkExec("", []string{""}, attr); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

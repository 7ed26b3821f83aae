// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's structures (seccomp.h).
type (
	notified struct {
		id        uint64
		_         [3]uint64 // thread, flags, call, architecture, address of the instruction
		arguments [6]uint64
	}
	decision struct {
		id    uint64
		_     int64 // what the call returns
		error int32
		flags uint32
	}
	given struct {
		id                              uint64
		flags, from, number, givenFlags uint32
	}
)

// ask asks a listener something. The kernel reads and writes what p points to during the call.
func ask[T any](listener int, number uintptr, p *T) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), number,
			uintptr(unsafe.Pointer(p)))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// decideFrom has mappings of descriptors from a number on decided by who has the listener, for the
// calling thread and those that it makes.
func decideFrom(number uint32) (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	program := []unix.SockFilter{
		load(0), // the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MMAP, Jf: 4},
		load(16 + 8*4), // the descriptor
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: ^uint32(0), Jt: 2}, // none
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// TestAnotherDecidesOnMappings: a process can have the mappings of some descriptors decided by
// another one, which sees the arguments in registers and gives it the file, under a number that it
// chooses, only while it allows a mapping of it. The threat model says what this could bound.
func TestAnotherDecidesOnMappings(t *testing.T) {
	page := os.Getpagesize()
	const number = 1000 // a descriptor that is nothing yet
	ram, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ram)
	for i := range 2 {
		if _, err := unix.Pwrite(ram, []byte{byte(1 + i)}, int64(i*page)); err != nil {
			t.Fatal(err)
		}
	}
	listeners, results := make(chan int), make(chan error)
	go onOwnThread(func() {
		listener, err := decideFrom(number)
		if listeners <- listener; err != nil {
			results <- err
			return
		}
		for _, offset := range []int{0, page} {
			b, err := unix.Mmap(number, int64(offset), page, unix.PROT_READ, unix.MAP_SHARED)
			if err == nil && b[0] != 2 {
				err = errors.New("another page is mapped")
			}
			if results <- err; b != nil {
				_ = unix.Munmap(b)
			}
		}
		b, err := unix.Mmap(ram, 0, page, unix.PROT_READ, unix.MAP_SHARED) // nobody is asked
		if b != nil {
			_ = unix.Munmap(b)
		}
		results <- err
	})
	listener := <-listeners
	if listener < 0 {
		if err := <-results; !errors.Is(err, unix.EBUSY) {
			t.Fatal(err)
		}
		t.Skip("a filter around this process has a listener already, and there can be only one")
	}
	defer unix.Close(listener)
	for _, want := range []error{unix.EACCES, nil} {
		var n notified
		if err := ask(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, &n); err != nil {
			t.Fatal(err)
		}
		fd, offset := n.arguments[4], n.arguments[5]
		answer := decision{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if fd != number || n.arguments[1] != uint64(page) {
			t.Errorf("descriptor %d, %d bytes", fd, n.arguments[1])
		}
		if offset != uint64(page) {
			answer.flags, answer.error = 0, -int32(unix.EACCES)
		} else if err := ask(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, &given{id: n.id,
			flags: unix.SECCOMP_ADDFD_FLAG_SETFD, from: uint32(ram), number: number,
			givenFlags: unix.O_CLOEXEC}); err != nil {
			t.Errorf("give it the file: %v", err)
		}
		if err := ask(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, &answer); err != nil {
			t.Fatal(err)
		}
		if err := <-results; !errors.Is(err, want) {
			t.Errorf("offset %d: %v, want %v", offset, err, want)
		}
	}
	if err := <-results; err != nil {
		t.Error(err)
	}
	if err := unix.Close(number); err != nil {
		t.Error(err)
	}
}

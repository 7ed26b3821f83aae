// SPDX-License-Identifier: Apache-2.0

// Package mapleavetest has threads whose mappings, and files in memory, somebody else decides on,
// as for workers. Only tests use it.
package mapleavetest

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From is the first number on which another decides: nothing else in a test has it.
const From = 1 << 10

// Asker is a thread whose mappings of numbers from From on are decided on.
type Asker struct {
	Listener int // decides; the test owns it
	TID      int

	do    chan func()
	ended chan struct{}
	over  bool
}

// New starts one, which ends with the test at the latest. Where a listener can't be had the test is
// skipped.
func New(t testing.TB) *Asker {
	t.Helper()
	a := &Asker{do: make(chan func()), ended: make(chan struct{})}
	begun := make(chan error)
	go ownThread(func() {
		defer close(a.ended)
		a.TID = unix.Gettid()
		var err error
		a.Listener, err = decideFrom(From)
		if begun <- err; err != nil {
			return
		}
		for f := range a.do {
			f()
		}
	})
	if err := <-begun; errors.Is(err, unix.EBUSY) {
		<-a.ended
		t.Skip("a filter around this process has a listener already, and there can be only one")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.End)
	return a
}

// End ends the thread.
func (a *Asker) End() {
	if !a.over {
		a.over = true
		close(a.do)
		<-a.ended
	}
}

// ownThread runs f on a thread that ends with it, and isn't the first one.
func ownThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); ownThread(f) }()
	<-done
	runtime.UnlockOSThread()
}

// decideFrom has mappings of descriptors from a number on, and files in memory, decided by who has
// the listener, for the calling thread and those that it makes.
func decideFrom(number uint32) (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	program := []unix.SockFilter{
		load(0), // the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MEMFD_CREATE, Jt: 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MMAP, Jf: 4},
		load(16 + 8*4), // the descriptor
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: ^uint32(0), Jt: 2}, // none
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// The kernel copies the program during the call, and keeps nothing that points here.
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// Attempt is a call of mmap.
type Attempt struct{ Length, Prot, Flags, FD, Offset uintptr }

// Try has the thread make a call. What it maps is unmapped again.
func (a *Asker) Try(x Attempt) <-chan Result { return a.Repeat(x, 1) }

// Do has the thread run a function, and waits.
func (a *Asker) Do(f func()) {
	done := make(chan struct{})
	a.do <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Repeat is Try for so many calls, one after the other, until one fails.
func (a *Asker) Repeat(x Attempt, times int) <-chan Result {
	got := make(chan Result, 1)
	a.do <- func() {
		var r Result
		for i := 0; i < times && r.Err == nil; i++ {
			r = x.try()
		}
		got <- r
	}
	return got
}

// try makes the call.
func (x Attempt) try() Result {
	p, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, x.Length, x.Prot, x.Flags, x.FD, x.Offset)
	if errno != 0 {
		return Result{Err: errno}
	}
	// The number is an address outside Go's memory, where something is mapped until Munmap.
	r := Result{Found: **(**byte)(unsafe.Pointer(&p))}
	_, _, _ = unix.Syscall(unix.SYS_MUNMAP, p, x.Length, 0)
	return r
}

// Result is what came of it: the first byte of what was mapped.
type Result struct {
	Found byte
	Err   error
}

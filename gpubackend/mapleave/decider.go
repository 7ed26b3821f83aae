// SPDX-License-Identifier: Apache-2.0

package mapleave

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Mapping is what a worker wants to map.
type Mapping struct {
	Number         uint32 // of the file
	Offset, Length uint64 // in the file, in whole pages; their sum doesn't wrap
	Writable       bool
	Right          guestmem.Right // by which it is mapped, as the worker says
}

// Policy says what a worker may map.
type Policy interface {
	// Allow calls give with the file that is to be mapped, if the worker may map it: its descriptor
	// need only be open for that time. Otherwise it returns an error. Deciders of several workers
	// may call it at the same time.
	Allow(m Mapping, give func(fd int) error) error
	// Make calls give with a file of that form, if the worker may have it. Otherwise it returns an
	// error, as it does if give does.
	Make(f memfd.Form, give func(fd int) error) error
	// Stands says whether a number stands for a file. One that doesn't never will again.
	Stands(number uint32) bool
}

// Decider decides on what a worker maps.
type Decider struct {
	policy  Policy
	file    *os.File
	has     map[uint32]bool // whether the worker has a number's file; false: it may
	refused func(Mapping, error)
	closed  atomic.Bool
}

// ErrKernel says that the kernel can't give files to processes that ask.
var ErrKernel = errors.New("the kernel can't give a file to a process whose call it stops")

// New takes over a worker's listener. refused is told what was refused; nil: nobody is.
func New(listener int, p Policy, refused func(Mapping, error)) (*Decider, error) {
	if err := canGive(listener); err != nil {
		unix.Close(listener)
		return nil, err
	}
	runTogether(listener)
	if err := unix.SetNonblock(listener, true); err != nil { // os.NewFile then polls it
		unix.Close(listener)
		return nil, fmt.Errorf("decide on mappings: %w", err)
	}
	if refused == nil {
		refused = func(Mapping, error) {}
	}
	return &Decider{policy: p, file: os.NewFile(uintptr(listener), "listener"),
		has: map[uint32]bool{}, refused: refused}, nil
}

// Before says that another process may have given the worker the files of these numbers. It is
// called before Serve.
func (x *Decider) Before(numbers []uint32) {
	for _, n := range numbers {
		x.has[n] = false
	}
}

// canGive says why files can't be given by a listener: a kernel before 5.9, or another file. There
// is no call 0.
func canGive(listener int) error {
	err := request(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, &handed{})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrKernel, err)
}

// WithFD calls f with the listener, which stays the Decider's.
func (x *Decider) WithFD(f func(fd int)) {
	if raw, err := x.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// Close ends Serve. Calls that wait go on waiting if another process has the listener, and fail
// otherwise.
func (x *Decider) Close() {
	x.closed.Store(true)
	_ = x.file.Close()
}

// Serve decides until the worker has ended, or until Close.
func (x *Decider) Serve() error {
	raw, err := x.file.SyscallConn()
	if err != nil {
		return nil // it is closed
	}
	for {
		more := false
		err := raw.Read(func(fd uintptr) (done bool) {
			more, done = x.look(int(fd))
			return done
		})
		switch {
		case x.closed.Load(), err == nil && !more:
			return nil
		case err != nil:
			if more, err = x.lookAnyway(raw); err != nil || !more {
				return err
			}
		}
	}
}

// blind is how long calls wait at most that the Go runtime doesn't tell of.
const blind = 5 * time.Millisecond

// lookAnyway decides on the calls that wait, without waiting for one. If a signal comes while the
// kernel looks whether one waits (seccomp_notify_poll), it says EPOLLERR, and the Go runtime takes
// the listener for one that can't be waited for, until its next event.
func (x *Decider) lookAnyway(raw syscall.RawConn) (more bool, err error) {
	for done := true; done; {
		err := raw.Control(func(fd uintptr) { more, done = x.look(int(fd)) })
		switch {
		case x.closed.Load():
			return false, nil
		case err != nil:
			return false, fmt.Errorf("decide on mappings: %w", err)
		case !more:
			return false, nil
		}
	}
	time.Sleep(blind)
	return true, nil
}

// look decides on one call, if one waits. done is false when there is nothing to do now, more when
// there never will be.
func (x *Decider) look(listener int) (more, done bool) {
	for {
		p := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		n, err := unix.Ppoll(p, &unix.Timespec{}, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil, n > 0 && p[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
			return false, true
		case n == 0 || p[0].Revents&unix.POLLIN == 0:
			return true, false
		}
		var call notified
		// A call that a signal has ended isn't there any more.
		if request(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, &call) == nil {
			x.answer(listener, &call)
		}
		return true, true
	}
}

// answer decides on a call. Its thread may be gone: nobody is told then.
func (x *Decider) answer(listener int, call *notified) {
	if call.arch == unix.AUDIT_ARCH_X86_64 && call.call == unix.SYS_MEMFD_CREATE {
		x.make(listener, call)
		return
	}
	d := decision{id: call.id}
	if err := x.decide(listener, call); err == nil {
		d.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	} else {
		d.error = -int32(unix.EACCES)
	}
	_ = request(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, &d)
}

// The errors of calls that are no mappings as workers make them.
var (
	errOtherCall = errors.New("another call, or not of this architecture")
	errKind      = errors.New("not a mapping to share, or with code")
	errRange     = errors.New("a range that isn't in whole pages, or that no file has")
)

// nothing is no number of a file.
const nothing = 1<<32 - 1

// decide returns nil if a call may be made: the worker has the file then.
func (x *Decider) decide(listener int, call *notified) error {
	m, err := mappingOf(call)
	if err == nil {
		err = x.policy.Allow(m, func(fd int) error {
			if x.has[m.Number] {
				return nil
			}
			if err := give(listener, call, fd, m.Number); err != nil {
				return err
			}
			x.has[m.Number] = true
			return nil
		})
	}
	maps := m.Number
	if err != nil {
		maps = nothing
	}
	if e := x.takeBack(listener, call, maps); err == nil {
		err = e
	}
	if err != nil && !errors.Is(err, errGone) {
		x.refused(m, err)
	}
	return err
}

// errGone says that nobody waits for an answer any more.
var errGone = errors.New("the call has ended")

// give puts a file at a number of the process that makes the call.
func give(listener int, call *notified, fd int, number uint32) error {
	if err := request(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, &handed{id: call.id,
		flags: unix.SECCOMP_ADDFD_FLAG_SETFD, from: uint32(fd), number: number,
		givenFlags: unix.O_CLOEXEC}); err != nil {
		if errors.Is(err, unix.ENOENT) {
			err = errGone
		}
		return fmt.Errorf("give a file: %w", err)
	}
	return nil
}

// takeBack puts an empty file in the place of those that aren't the guest's memory any more: the
// host's memory isn't free as long as somebody has them. The one that the call is about to map
// stays until the next call.
func (x *Decider) takeBack(listener int, call *notified, maps uint32) error {
	empty := -1
	defer func() {
		if empty >= 0 {
			unix.Close(empty)
		}
	}()
	for number := range x.has {
		if number == maps || x.policy.Stands(number) {
			continue
		}
		if empty < 0 {
			var err error
			if empty, err = unix.MemfdCreate("paracuda-none",
				unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
				return fmt.Errorf("take a file back: %w", err)
			}
			const sealed = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW |
				unix.F_SEAL_WRITE
			if _, err := unix.FcntlInt(uintptr(empty), unix.F_ADD_SEALS, sealed); err != nil {
				return fmt.Errorf("take a file back: %w", err)
			}
		}
		if err := give(listener, call, empty, number); err != nil {
			return err
		}
		delete(x.has, number)
	}
	return nil
}

const (
	pageSize = 4096
	mostSize = 1 << 62 // of what a file has
)

// mappingOf is what a call asks for.
func mappingOf(call *notified) (Mapping, error) {
	a := &call.arguments // mmap's: address, length, protection, flags, descriptor, offset
	m := Mapping{
		Number: uint32(a[4]), Offset: a[5], Length: a[1], // the kernel drops the upper half
		Writable: a[2]&unix.PROT_WRITE != 0,
		Right:    guestmem.RightOf(a[4], a[3]),
	}
	const may = unix.MAP_SHARED | unix.MAP_FIXED | unix.MAP_NORESERVE
	flags := uint32(a[3]) // with MAP_SHARED it ignores others
	switch {
	case call.arch != unix.AUDIT_ARCH_X86_64, call.call != unix.SYS_MMAP:
		return m, errOtherCall
	case a[2]&^(unix.PROT_READ|unix.PROT_WRITE) != 0, flags&^may != 0,
		flags&unix.MAP_SHARED == 0:
		return m, fmt.Errorf("%w (protection %#x, flags %#x, descriptor %d)", errKind, a[2], a[3],
			int32(a[4]))
	case m.Offset%pageSize != 0, m.Length == 0, m.Length > mostSize, m.Offset > mostSize:
		return m, errRange
	}
	m.Length = (m.Length + pageSize - 1) &^ (pageSize - 1)
	return m, nil
}

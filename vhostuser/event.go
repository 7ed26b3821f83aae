// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors that carry signals come from the front end, which shares the file behind them. At any
// time it can make the file blocking again, read what was meant to be read here, and fill what was
// meant to be written. Therefore nothing here relies on O_NONBLOCK: each read and write asks not to
// wait, and what can't be written in that way is written by a goroutine for which nobody waits.

// signal is the bytes of a kick or an interrupt.
var signal = binary.NativeEndian.AppendUint64(nil, 1)

// Signal adds one to an eventfd, or sends the same eight bytes down a pipe or a socket, as some
// front ends want. One that is full has been signalled already, which is no error. It never waits.
func (f *FD) Signal() error {
	_, err := writeNow(f.Int(), signal)
	switch {
	case err == nil || errors.Is(err, unix.EAGAIN):
		return nil
	case !errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("signal: %w", err)
	case f.signals.Add(1) > 1:
		return nil // push writes once more, or the counter is full
	}
	own, err := f.Dup()
	if err != nil {
		f.signals.Store(0)
		return fmt.Errorf("signal: %w", err)
	}
	go f.push(own)
	return nil
}

// push writes until there was no signal during a write. It has a descriptor of its own, so that f
// can be closed meanwhile. An eventfd that is full is left alone; one that the front end fills
// during the write keeps the goroutine until somebody reads.
func (f *FD) push(own *FD) {
	defer func() { _ = own.Close() }()
	for {
		n := f.signals.Load()
		if ready(own.Int(), unix.POLLOUT) {
			_, _ = unix.Write(own.Int(), signal)
		}
		if f.signals.CompareAndSwap(n, 0) {
			return
		}
	}
}

// Drain takes the signals that are pending and reports whether there were any. It never waits.
func (f *FD) Drain() (bool, error) {
	n, err := readNow(f.Int())
	switch {
	case err == nil:
		return n > 0, nil
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	default:
		return false, fmt.Errorf("drain: %w", err)
	}
}

// writeNow writes without waiting. EOPNOTSUPP: the file can't be asked for that.
func writeNow(fd int, b []byte) (n int, err error) {
	for {
		n, err = unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.ENOTSOCK) {
			n, err = unix.Pwritev2(fd, [][]byte{b}, -1, unix.RWF_NOWAIT)
		}
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// readNow reads what is there, without waiting.
func readNow(fd int) (n int, err error) {
	var buf [512]byte
	for {
		n, _, _, _, err = unix.RecvmsgBuffers(fd, [][]byte{buf[:]}, nil, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.ENOTSOCK) {
			n, err = unix.Preadv2(fd, [][]byte{buf[:]}, -1, unix.RWF_NOWAIT)
		}
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// ready reports whether a descriptor is ready now.
func ready(fd int, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, _ := unix.Ppoll(fds, &unix.Timespec{}, nil)
	return n == 1 && fds[0].Revents&events != 0
}

// Waiter waits for the signals of a descriptor.
type Waiter struct {
	file *os.File
	raw  syscall.RawConn
}

// Waiter turns f into a waiter, and closes f.
func (f *FD) Waiter() (*Waiter, error) {
	fd, err := f.Disown()
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(fd, true) // or the runtime doesn't poll it
	w := &Waiter{file: os.NewFile(uintptr(fd), "signals")}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("wait for signals: %w", err)
	}
	return w, nil
}

// Wait returns when there was a signal since it returned last; it may return without one. It
// returns an error after Close, or when there will be no more signals. The runtime's poller reports
// each signal once, so a signal that can't be read does no harm.
func (w *Waiter) Wait() error {
	woken, ended := false, false
	err := w.raw.Read(func(fd uintptr) bool {
		n, err := readNow(int(fd))
		ended = n == 0 && err == nil
		if n > 0 || ended || woken {
			return true
		}
		woken = true
		return false
	})
	if err != nil {
		return fmt.Errorf("wait for a signal: %w", err)
	}
	if ended {
		return fmt.Errorf("wait for a signal: %w", os.ErrClosed)
	}
	return nil
}

// Close ends Wait, and closes the descriptor.
func (w *Waiter) Close() error { return w.file.Close() }

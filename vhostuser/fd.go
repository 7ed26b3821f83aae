// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrFDClosed is returned when a descriptor is used after it was closed or given away.
var ErrFDClosed = errors.New("descriptor is closed")

// openFDs counts the descriptors that are owned by an FD.
var openFDs atomic.Int64

// FD owns a file descriptor, which is closed once, by Close, or given away once, by Disown. Methods
// must not be called while another goroutine calls Close or Disown.
type FD struct {
	n       atomic.Int64  // descriptor + 1; 0 when there is none, so that the zero FD is closed
	signals atomic.Uint32 // since push began to deliver them; 0: push isn't running
}

// NewFD takes ownership of a descriptor.
func NewFD(n int) *FD {
	f := &FD{}
	if n >= 0 {
		f.n.Store(int64(n) + 1)
		openFDs.Add(1)
	}
	return f
}

// Int returns the descriptor, still owned by f, or -1. A nil FD is a closed one.
func (f *FD) Int() int {
	if f == nil {
		return -1
	}
	return int(f.n.Load()) - 1
}

// Dup returns a second descriptor for the same file, with an owner of its own.
func (f *FD) Dup() (*FD, error) {
	n, err := unix.FcntlInt(uintptr(f.Int()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor: %w", err)
	}
	return NewFD(n), nil
}

// Disown gives the descriptor away: the caller owns it now.
func (f *FD) Disown() (int, error) {
	n := int(f.n.Swap(0)) - 1
	if n < 0 {
		return -1, ErrFDClosed
	}
	openFDs.Add(-1)
	return n, nil
}

// Close closes the descriptor, if there is one.
func (f *FD) Close() error {
	if f == nil {
		return nil
	}
	n, err := f.Disown()
	if err != nil {
		return nil
	}
	return unix.Close(n)
}

// prepareEvent checks that a descriptor can carry signals, and makes it non-blocking, for the
// runtime's poller. The front end shares that flag and can take it away again: see event.go.
func prepareEvent(f *FD) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.Int(), &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	// An eventfd is an anonymous inode, which has no type. User Mode Linux sends one end of a
	// socket pair.
	if t := st.Mode & unix.S_IFMT; t != 0 && t != unix.S_IFIFO && t != unix.S_IFSOCK {
		return fmt.Errorf("descriptor of mode %#o is no eventfd, pipe or socket", st.Mode)
	}
	if err := unix.SetNonblock(f.Int(), true); err != nil {
		return fmt.Errorf("set non-blocking: %w", err)
	}
	return nil
}

// closeAll closes a list of descriptors.
func closeAll(fds []*FD) {
	for _, f := range fds {
		_ = f.Close()
	}
}

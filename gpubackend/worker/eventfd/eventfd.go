// SPDX-License-Identifier: Apache-2.0

// Package eventfd has the kernel's event counters. A worker uses only whether they are zero: a
// waiter sleeps until its counter isn't.
//
// The descriptors belong to the callers. Any goroutine may use one.
package eventfd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// New returns a counter that is zero.
func New() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	return fd, nil
}

// Notify adds 1. A counter that is full already has the same effect.
func Notify(fd int) {
	_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// Drain makes a counter zero.
func Drain(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
}

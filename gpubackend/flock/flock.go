// SPDX-License-Identifier: Apache-2.0

// Package flock locks files and directories against other processes that lock them, too. The kernel
// ends a lock with the last descriptor of the open file. Who can open a file can lock it for as
// long as they like: only files of trusted users are to be waited for.
package flock

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Take locks an open file for this one alone, and waits while another has it.
func Take(fd int) error { return whole(func() error { return unix.Flock(fd, unix.LOCK_EX) }) }

// Try locks an open file for this one alone. If another has it, the error is unix.EWOULDBLOCK.
func Try(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }

// whole makes a call again that a signal has ended.
func whole(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

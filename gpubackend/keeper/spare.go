// SPDX-License-Identifier: Apache-2.0

package keeper

import "golang.org/x/sys/unix"

// spares are descriptors of nothing, whose numbers are given back when a child is to be started: a
// process that has none left could start none.
type spares []int

// forStart is how many a start takes: a connection, what the kernel names the child by, and what
// its execution is waited for with.
const forStart = 8

// take takes as many as there are, up to that.
func (s *spares) take() {
	for len(*s) < forStart {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return
		}
		*s = append(*s, fd)
	}
}

// give gives them back.
func (s *spares) give() {
	for _, fd := range *s {
		_ = unix.Close(fd)
	}
	*s = nil
}

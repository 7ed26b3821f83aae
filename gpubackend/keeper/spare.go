// SPDX-License-Identifier: Apache-2.0

package keeper

import "golang.org/x/sys/unix"

// spares are descriptors that are closed before a child is started: a process with no descriptor
// left couldn't start one.
type spares []int

// forStart is how many descriptors a start needs: a connection, a pidfd, and a pipe to wait for the
// child's execution.
const forStart = 8

// take takes as many as it can, up to forStart.
func (s *spares) take() {
	for len(*s) < forStart {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return
		}
		*s = append(*s, fd)
	}
}

// give closes them.
func (s *spares) give() {
	for _, fd := range *s {
		_ = unix.Close(fd)
	}
	*s = nil
}

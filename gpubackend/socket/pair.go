// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Pair returns both ends of a connection. A device process makes sockets, as it may make no pipes.
func Pair() (near, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

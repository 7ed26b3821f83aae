// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/paracuda/paracuda/vhostuser"
)

// maxSocketPath is how long the path of a UNIX socket may be: its address holds 108 bytes, with a zero at the end (unix(7)).
const maxSocketPath = 107

// checkSocket refuses a path that the kernel would call an invalid argument.
func checkSocket(option, path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("%s: the path has %d bytes, and that of a socket %d at most: %s", option, len(path), maxSocketPath, path)
	}
	return nil
}

// listen makes the socket that an option names.
func listen(option, path string) (*net.UnixListener, error) {
	if err := checkSocket(option, path); err != nil {
		return nil, err
	}
	l, err := vhostuser.Listen(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("socket %s is in use: stop the process that serves it, or choose another path", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	return l, nil
}

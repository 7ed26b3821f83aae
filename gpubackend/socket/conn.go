// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// ErrKind says that a descriptor isn't a connected UNIX socket.
var ErrKind = errors.New("not a connection by a UNIX socket")

// Conn makes a connection from a descriptor, which it always closes: the connection has its own.
func Conn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, os.ErrInvalid)
	}
	defer f.Close()
	return Of(f)
}

// Of is Conn for a file that stays open.
func Of(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKind, err)
	}
	if u, ok := c.(*net.UnixConn); ok {
		return u, nil
	}
	_ = c.Close()
	return nil, fmt.Errorf("%w but by %s", ErrKind, c.LocalAddr().Network())
}

// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Listen makes a listening socket at a path, for --socket-path. A socket that a dead process has
// left there is removed. One that is in use stays, and so does a file of any other kind.
func Listen(path string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if !errors.Is(err, unix.EADDRINUSE) {
		return l, err
	}
	// Connecting to a file that is no socket is refused too: it must not be taken for a stale one.
	if is, statErr := os.Lstat(path); statErr == nil && is.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("%s exists and is no socket: choose another path", path)
	}
	if c, dialErr := net.DialUnix("unix", nil, addr); !errors.Is(dialErr, unix.ECONNREFUSED) {
		if dialErr == nil {
			_ = c.Close()
		}
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	return net.ListenUnix("unix", addr)
}

// Inherit takes over a socket that the process was started with, for --fd. It may be connected or
// listening: one of the results is nil.
func Inherit(fd int) (*net.UnixListener, *net.UnixConn, error) {
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return nil, nil, fmt.Errorf("inherit socket %d: %w", fd, err)
	}
	f := os.NewFile(uintptr(fd), "vhost-user")
	defer func() { _ = f.Close() }()
	if listening != 0 {
		l, err := net.FileListener(f)
		if err != nil {
			return nil, nil, fmt.Errorf("inherit listener: %w", err)
		}
		if ul, ok := l.(*net.UnixListener); ok {
			return ul, nil, nil
		}
		_ = l.Close()
		return nil, nil, fmt.Errorf("inherit socket %d: not a unix socket", fd)
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, nil, fmt.Errorf("inherit connection: %w", err)
	}
	if uc, ok := c.(*net.UnixConn); ok {
		return nil, uc, nil
	}
	_ = c.Close()
	return nil, nil, fmt.Errorf("inherit socket %d: not a unix socket", fd)
}

// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Kind says what passes through a pair of sockets. No child inherits one by itself.
type Kind int

const (
	// Stream passes bytes.
	Stream Kind = unix.SOCK_STREAM | unix.SOCK_CLOEXEC
	// Packets passes messages, each whole or not at all.
	Packets Kind = unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC
	// NonBlocking is added for ends that nothing waits at.
	NonBlocking Kind = unix.SOCK_NONBLOCK
)

// Descriptors returns both ends of a connection. A device process makes sockets, as it may make no
// pipes.
func Descriptors(k Kind) (near, far int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, int(k), 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make a pair of sockets: %w", err)
	}
	return fds[0], fds[1], nil
}

// Pair is Descriptors with files.
func Pair(k Kind) (near, far *os.File, err error) {
	a, b, err := Descriptors(k)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(a), "socket"), os.NewFile(uintptr(b), "socket"), nil
}

// Connect returns a connection, and its other end as a file, to be passed on.
func Connect(k Kind) (near *net.UnixConn, far *os.File, err error) {
	a, b, err := Descriptors(k)
	if err != nil {
		return nil, nil, err
	}
	if near, err = Conn(a); err != nil {
		_ = unix.Close(b)
		return nil, nil, err
	}
	return near, os.NewFile(uintptr(b), "socket"), nil
}

// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConn: a socket becomes a connection, all else is refused, and the descriptor is closed.
func TestConn(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Conn(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := unix.Read(pair[1], make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("the other end read %d bytes: %v", n, err)
	}
	unix.Close(pair[1])

	datagrams, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, fd := range map[string]int{"another socket": datagrams, "a file": plain} {
		if _, err := Conn(fd); !errors.Is(err, ErrKind) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s is still open", what)
		}
	}
	if _, err := Conn(-1); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("no descriptor: %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOutbox sends some megabytes of answers through files, as two processes would that have the
// same open file: each is sent once, whoever sends it, and files are bounded.
func TestOutbox(t *testing.T) {
	t.Parallel()
	front, back := socketPair(t)
	c := NewConn(back, time.Second)
	var o outbox
	defer o.close()
	files := 0
	for i := range byte(100) {
		m := &Message{Request: GetConfig, Flags: FlagVersion | FlagReply,
			Payload: bytes.Repeat([]byte{i}, maxPayload)}
		had := o.end
		if err := o.add(m); err != nil {
			t.Fatal(err)
		}
		if o.end < had {
			files++
		}
		other, err := o.fd.Dup()
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range []*FD{o.fd, other, o.fd} {
			if err := c.sendRest(fd); err != nil {
				t.Fatal(err)
			}
		}
		_ = other.Close()
		got := make([]byte, HeaderSize+maxPayload)
		if _, err := io.ReadFull(front, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, m.AppendTo(nil)) {
			t.Fatalf("other bytes arrive than answer %d", i)
		}
	}
	if files != 6 {
		t.Errorf("100 answers of 64 KiB went through %d more files, want 6", files)
	}
	_ = front.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := front.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("more than the answers arrives: %d bytes, %v", n, err)
	}
	_ = front.Close()
	if err := o.add(&Message{Payload: []byte("late")}); err != nil {
		t.Fatal(err)
	}
	if err := c.sendRest(o.fd); err == nil {
		t.Error("an answer is sent to nobody")
	}
	o.close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	o.fd = NewFD(fd)
	if err := o.add(&Message{}); err == nil || o.fd != nil {
		t.Errorf("an answer is in a file that takes none: %v", err)
	}
	_ = back.Close()
	if err := c.sendRest(o.fd); err == nil {
		t.Error("an answer is sent to a socket that is closed")
	}
}

func socketPair(t *testing.T) (front, back *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "")
		conn, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conns[0], conns[1]
}

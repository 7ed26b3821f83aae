// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// A process may be killed at any moment, and what it has read from the socket is gone with it. So a
// message is looked at, with duplicates of its descriptors, and kept for the next process (Keep),
// before it is taken from the socket.

// Peek waits for a message and returns it without taking it from the socket. Its descriptors are
// duplicates. If it has none, it may be shown with those of the message behind it, as Linux looks
// one message too far: Take corrects that. nil: it isn't there as a whole yet, or isn't as it
// should be, which Read says.
func (c *Conn) Peek() *Message {
	if err := c.sock.SetReadDeadline(time.Time{}); err != nil {
		return nil
	}
	m := &Message{}
	oob := make([]byte, oobBytes)
	var header [HeaderSize]byte
	n, oobn, flags, err := c.look(header[:], oob, true)
	cut := m.collect(oob[:oobn]) || flags&unix.MSG_CTRUNC != 0
	size, good := m.parseHeader(header[:])
	if err != nil || n < len(header) || cut || !good {
		closeAll(m.takeFDs())
		return nil
	}
	whole := make([]byte, HeaderSize+size)
	if n, _, _, err = c.look(whole, nil, false); err != nil || n < len(whole) {
		closeAll(m.takeFDs())
		return nil
	}
	m.Payload = whole[HeaderSize:]
	return m
}

// Take takes a message from the socket that Peek has shown.
func (c *Conn) Take(m *Message) error {
	b, oob := make([]byte, HeaderSize+len(m.Payload)), make([]byte, oobBytes)
	n, oobn, flags, _, err := c.sock.ReadMsgUnix(b, oob)
	var own Message
	lost := own.collect(oob[:oobn]) || flags&unix.MSG_CTRUNC != 0 // then m has duplicates already
	if len(own.FDs) != len(m.FDs) && !lost {
		m.FDs, own.FDs = own.FDs, m.FDs
	}
	closeAll(own.takeFDs())
	if err == nil {
		_, err = io.ReadFull(c.sock, b[n:])
	}
	if err != nil {
		return fmt.Errorf("read message: %w", noEOF(err))
	}
	return nil
}

// Has says whether a message that Peek has shown, maybe in another process, is still in the socket,
// or one that is the same but for its descriptors.
func (c *Conn) Has(m *Message) bool {
	want := m.AppendTo(nil)
	got := make([]byte, len(want))
	n, _, _, err := c.look(got, nil, false)
	return err == nil && n == len(want) && bytes.Equal(got, want)
}

// look is recvmsg that takes nothing from the socket. It waits for the first byte, if it may.
func (c *Conn) look(b, oob []byte, wait bool) (n, oobn, flags int, err error) {
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return 0, 0, 0, err
	}
	const how = unix.MSG_PEEK | unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for again := true; again; again = errors.Is(failed, unix.EINTR) {
			n, oobn, flags, _, failed = unix.Recvmsg(int(fd), b, oob, how)
		}
		return !wait || !errors.Is(failed, unix.EAGAIN)
	})
	return max(n, 0), max(oobn, 0), flags, errors.Join(err, failed)
}

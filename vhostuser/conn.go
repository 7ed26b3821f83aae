// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Conn carries messages, with their descriptors, over a Unix stream socket. One goroutine may
// read while another writes.
type Conn struct {
	sock    *net.UnixConn
	timeout time.Duration // for the rest of a message that has begun, and for a write
}

// NewConn takes ownership of a socket. A message that has begun must be complete, and a message
// that is sent must be taken, within the timeout.
func NewConn(sock *net.UnixConn, timeout time.Duration) *Conn {
	return &Conn{sock: sock, timeout: timeout}
}

// Close closes the socket; a Read that waits returns.
func (c *Conn) Close() error { return c.sock.Close() }

// Read waits for a message. It returns io.EOF if the other side closed the socket between two
// messages. A *MessageError says that the message is unusable but the next one can be read; any
// other error means that none can.
func (c *Conn) Read() (m *Message, err error) {
	if err := c.sock.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	var header [HeaderSize]byte
	m = &Message{}
	cut, err := c.readHeader(header[:], m)
	if err != nil {
		closeAll(m.takeFDs())
		return nil, err
	}
	size, good := m.parseHeader(header[:])
	if !good {
		closeAll(m.takeFDs())
		return nil, fmt.Errorf("%w: flags %#x, size %d", ErrStream, m.Flags, size)
	}
	// A plain read drops descriptors that come with the payload, where none belong.
	m.Payload = make([]byte, size)
	if _, err := io.ReadFull(c.sock, m.Payload); err != nil {
		closeAll(m.takeFDs())
		return nil, fmt.Errorf("read payload: %w", noEOF(err))
	}
	if cut {
		closeAll(m.takeFDs())
		return m, &MessageError{m.Request, fmt.Errorf("%w: descriptors were cut off", ErrProtocol)}
	}
	return m, nil
}

// oobBytes is room for a message's descriptors. A service manager may have set the socket so that
// credentials come along.
var oobBytes = unix.CmsgSpace(4*MaxFDs) + unix.CmsgSpace(unix.SizeofUcred)

// parseHeader reads a header. It returns the length of the payload, and whether that can be read.
func (m *Message) parseHeader(b []byte) (size uint32, good bool) {
	m.Request, m.Flags, size = Request(wire.Uint32(b)), wire.Uint32(b[4:]), wire.Uint32(b[8:])
	return size, m.Flags&FlagVersionMask == FlagVersion && size <= maxPayload
}

// readHeader fills the header, however small the pieces it comes in, and collects the descriptors.
// cut says that some of them were lost.
func (c *Conn) readHeader(header []byte, m *Message) (cut bool, err error) {
	for got := 0; got < len(header); {
		oob := make([]byte, oobBytes)
		n, oobn, flags, _, err := c.sock.ReadMsgUnix(header[got:], oob)
		lost := m.collect(oob[:oobn])
		cut = cut || lost || flags&unix.MSG_CTRUNC != 0
		if err != nil {
			if got == 0 && errors.Is(err, io.EOF) {
				return cut, io.EOF
			}
			return cut, fmt.Errorf("read header: %w", noEOF(err))
		}
		if got == 0 {
			if err := c.sock.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
				return cut, fmt.Errorf("set deadline: %w", err)
			}
		}
		got += n
	}
	return cut, nil
}

// noEOF turns an end inside a message into an error that doesn't look like a good end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// collect takes the descriptors out of ancillary data. It reports whether any were dropped, because
// the message had too many.
func (m *Message) collect(oob []byte) (lost bool) {
	if len(oob) == 0 {
		return false
	}
	cmsgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return true
	}
	for i := range cmsgs {
		fds, err := unix.ParseUnixRights(&cmsgs[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if f := NewFD(fd); len(m.FDs) < MaxFDs {
				m.FDs = append(m.FDs, f)
			} else {
				_ = f.Close()
				lost = true
			}
		}
	}
	return lost
}

// Write sends a message. The descriptors are sent as duplicates and stay owned by the message.
func (c *Conn) Write(m *Message) error {
	var oob []byte
	if len(m.FDs) > 0 {
		fds := make([]int, len(m.FDs))
		for i, f := range m.FDs {
			fds[i] = f.Int()
		}
		oob = unix.UnixRights(fds...)
	}
	if err := c.sock.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	b := m.AppendTo(nil)
	n, _, err := c.sock.WriteMsgUnix(b, oob, nil)
	if err == nil && n < len(b) {
		_, err = c.sock.Write(b[n:])
	}
	if err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	return nil
}

// AppendTo appends the bytes of the message.
func (m *Message) AppendTo(b []byte) []byte {
	b = wire.AppendUint32(b, uint32(m.Request))
	b = wire.AppendUint32(b, m.Flags)
	b = wire.AppendUint32(b, uint32(len(m.Payload)))
	return append(b, m.Payload...)
}

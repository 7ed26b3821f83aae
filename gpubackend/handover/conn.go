// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

// Conn is one end of a control connection: a SEQPACKET socket.
type Conn struct {
	c       *net.UnixConn
	timeout time.Duration
}

// SetTimeout bounds how long each later Send waits for a peer that doesn't read. 0, the default, is
// no bound.
func (c *Conn) SetTimeout(t time.Duration) { c.timeout = t }

// NewConn takes over a socket.
func NewConn(f *os.File) (*Conn, error) {
	c, err := socket.Of(f)
	if err != nil {
		return nil, fmt.Errorf("control connection: %w", err)
	}
	f.Close()
	return &Conn{c: c}, nil
}

// Pair makes a control connection: one end for this process, the other to pass on.
func Pair() (*Conn, *os.File, error) {
	c, far, err := socket.Connect(socket.Packets)
	if err != nil {
		return nil, nil, fmt.Errorf("control connection: %w", err)
	}
	return &Conn{c: c}, far, nil
}

const (
	maxMessage = 1 << 17
	maxFiles   = 250 // the kernel takes 253
)

// Send sends m with the files named by fds: those of m.Files, in order.
func (c *Conn) Send(m *Message, fds []int) error {
	b, oob, err := m.packed(fds)
	if err != nil {
		return err
	}
	if c.timeout > 0 {
		_ = c.c.SetWriteDeadline(time.Now().Add(c.timeout))
	}
	if _, _, err := c.c.WriteMsgUnix(b, oob, nil); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	return nil
}

// SendNow sends a message if there is room for it, and doesn't wait otherwise, not even for another
// Send.
func (c *Conn) SendNow(m *Message, fds []int) error {
	b, oob, err := m.packed(fds)
	if err != nil {
		return err
	}
	raw, err := c.c.SyscallConn()
	if err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for again := true; again; again = failed == unix.EINTR {
			failed = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	return nil
}

// packed is a message as it goes over the socket.
func (m *Message) packed(fds []int) (b, oob []byte, err error) {
	if b, err = json.Marshal(m); err != nil {
		return nil, nil, err
	}
	if len(b) > maxMessage || len(fds) > maxFiles {
		return nil, nil,
			fmt.Errorf("send %s: %d bytes and %d files are too many", m.Kind, len(b), len(fds))
	}
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	return b, oob, nil
}

// received are buffers for messages, of which decode keeps nothing. Most messages are short.
var received = sync.Pool{New: func() any { return new([maxMessage]byte) }}

// Receive waits for a message. The caller owns the files.
func (c *Conn) Receive() (*Message, []int, error) {
	buffer := received.Get().(*[maxMessage]byte)
	defer received.Put(buffer)
	b, oob := buffer[:], make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, _, _, err := c.c.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, nil, err
	}
	fds, err := FilesOf(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	m, err := decode(b[:n], len(fds))
	if err != nil {
		CloseFiles(fds)
		return nil, nil, err
	}
	return m, fds, nil
}

// decode decodes a message that came with so many files.
func decode(b []byte, files int) (*Message, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("receive: %w", net.ErrClosed)
	}
	m := &Message{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("receive %.32q: %w", m.Kind, err)
	}
	if want := m.Files.count(); want != files {
		return nil, fmt.Errorf("receive %s: %d files, want %d", m.Kind, files, want)
	}
	return m, nil
}

// WithFD calls f with the connection's descriptor, which the connection keeps. A closed connection
// has none.
func (c *Conn) WithFD(f func(fd int)) {
	if raw, err := c.c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Network is the kind of socket.
const Network = "unixpacket"

// Bounds of a message.
const (
	maxBytes = 1 << 17
	maxFiles = 3
)

// ErrMessage says that what came in isn't a message.
var ErrMessage = errors.New("not a message of paracuda's arbiter")

// Socket carries messages, whole and in their order: a *net.UnixConn of Network.
type Socket interface {
	ReadMsgUnix(b, oob []byte) (n, oobn, flags int, from *net.UnixAddr, err error)
	WriteMsgUnix(b, oob []byte, to *net.UnixAddr) (n, oobn int, err error)
	SetDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	SyscallConn() (syscall.RawConn, error)
	Close() error
}

// Conn is one end of a connection. One goroutine may receive while another sends.
type Conn struct{ c Socket }

// Dial connects to an arbiter.
func Dial(path string, timeout time.Duration) (*Conn, error) {
	c, err := net.DialTimeout(Network, path, timeout)
	if err != nil {
		return nil, err
	}
	return New(c.(*net.UnixConn)), nil
}

// New takes over a connection.
func New(c Socket) *Conn { return &Conn{c} }

// Close ends the connection.
func (c *Conn) Close() { _ = c.c.Close() }

// Deadline bounds what is sent and received from now on.
func (c *Conn) Deadline(t time.Time) { _ = c.c.SetDeadline(t) }

// SendDeadline bounds what is sent from now on.
func (c *Conn) SendDeadline(t time.Time) { _ = c.c.SetWriteDeadline(t) }

// User returns the user at the other end.
func (c *Conn) User() (uid uint32, err error) {
	raw, err := c.c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, fmt.Errorf("credentials of the peer: %w", err)
	}
	return cred.Uid, nil
}

// Send sends a Request or an Answer, with descriptors, which stay the caller's.
func (c *Conn) Send(message any, fds ...int) error {
	b, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("send on the arbiter's socket: %w", err)
	}
	if len(b) > maxBytes {
		return fmt.Errorf("send on the arbiter's socket: %d bytes, at most %d", len(b), maxBytes)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.c.WriteMsgUnix(b, rights, nil); err != nil {
		return fmt.Errorf("send on the arbiter's socket: %w", err)
	}
	return nil
}

// Receive reads a Request or an Answer into message, and takes the descriptors that came along: as
// many as are wanted, or none.
func (c *Conn) Receive(message any, wanted int) ([]int, error) {
	b := make([]byte, maxBytes+1)
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m, flags, _, err := c.c.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	if n == 0 && m == 0 {
		return nil, net.ErrClosed
	}
	fds := files(oob[:m])
	if n > maxBytes || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		CloseFiles(fds)
		return nil, fmt.Errorf("%w: it is too long", ErrMessage)
	}
	if err := json.Unmarshal(b[:n], message); err != nil {
		CloseFiles(fds)
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if len(fds) != wanted {
		CloseFiles(fds)
		fds = nil
	}
	return fds, nil
}

// files are the descriptors in a control message.
func files(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds
}

// CloseFiles closes descriptors that are of no use.
func CloseFiles(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// outbox is a file through which answers go to the front end of a session that is kept. A process
// may be killed before it has sent an answer, or after; the next one must know which. sendfile
// fills the socket and moves the position of the open file in one system call, and the next process
// has the same open file: what is behind its position wasn't sent.
type outbox struct {
	fd  *FD   // nil: there is none
	end int64 // of what was written
}

// maxOutbox is how long the file gets before another takes its place.
const maxOutbox = 1 << 20

// add writes an answer to the file, to be sent.
func (o *outbox) add(m *Message) error {
	if o.end > maxOutbox {
		o.close()
	}
	if o.fd == nil {
		n, err := unix.MemfdCreate("outbox", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("create outbox: %w", err)
		}
		*o = outbox{fd: NewFD(n)}
	}
	b := m.AppendTo(nil)
	n, err := unix.Pwritev2(o.fd.Int(), [][]byte{b}, o.end, 0)
	if err == nil && n < len(b) {
		err = unix.ENOSPC
	}
	if err != nil {
		o.close() // or a part of the answer would be sent
		return fmt.Errorf("write answer: %w", err)
	}
	o.end += int64(n)
	return nil
}

func (o *outbox) close() {
	_ = o.fd.Close()
	*o = outbox{}
}

// sendRest sends what is in a file behind its position, which is one answer at most.
func (c *Conn) sendRest(file *FD) error {
	if err := c.sock.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return err
	}
	left := HeaderSize + maxPayload
	var failed error
	err = raw.Write(func(sock uintptr) bool {
		for left > 0 {
			var n int
			n, failed = unix.Sendfile(int(sock), file.Int(), nil, left)
			switch {
			case errors.Is(failed, unix.EINTR):
				continue
			case failed != nil:
				return !errors.Is(failed, unix.EAGAIN)
			case n <= 0:
				return true
			}
			left -= n
		}
		return true
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("send answer: %w", err)
	}
	return nil
}

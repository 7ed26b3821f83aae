// SPDX-License-Identifier: Apache-2.0

package arbiter_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// socket is one end of a simulated connection: messages come late, but whole and in order.
type socket struct {
	in, out  *queue
	deadline time.Time
}

// queue is what is under way to one end.
type queue struct {
	delay func() time.Duration
	*cut

	mu       sync.Mutex
	messages []message
	news     chan struct{} // has something when there may be a message
}

// cut is closed when the connection has ended.
type cut struct {
	once sync.Once
	over chan struct{}
}

func (c *cut) is() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

type message struct {
	bytes []byte
	fds   []int
	at    time.Time // when it arrives
}

// connect makes a connection, whose messages take as long as delay says.
func connect(delay func() time.Duration) (a, b *socket) {
	c := &cut{over: make(chan struct{})}
	queueOf := func() *queue { return &queue{delay: delay, cut: c, news: make(chan struct{}, 1)} }
	x, y := queueOf(), queueOf()
	return &socket{in: x, out: y}, &socket{in: y, out: x}
}

// WriteMsgUnix implements link.Socket.
func (s *socket) WriteMsgUnix(b, oob []byte, _ *net.UnixAddr) (n, oobn int, err error) {
	q := s.out
	m := message{bytes: append([]byte(nil), b...)}
	if m.fds, err = copies(oob); err != nil {
		return 0, 0, err
	}
	q.mu.Lock()
	if q.is() {
		q.mu.Unlock()
		link.CloseFiles(m.fds)
		return 0, 0, unix.EPIPE
	}
	m.at = time.Now().Add(q.delay())
	if n := len(q.messages); n > 0 && m.at.Before(q.messages[n-1].at) {
		m.at = q.messages[n-1].at
	}
	q.messages = append(q.messages, m)
	q.mu.Unlock()
	select {
	case q.news <- struct{}{}:
	default:
	}
	return len(b), len(oob), nil
}

// copies duplicates the descriptors of a message, as another process gets them.
func copies(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		rights, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, err
		}
		for _, fd := range rights {
			fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			fds = append(fds, fd)
		}
	}
	return fds, err
}

// ReadMsgUnix implements link.Socket. What is under way when a connection ends is lost.
func (s *socket) ReadMsgUnix(b, oob []byte) (n, m, flags int, from *net.UnixAddr, err error) {
	var limit <-chan time.Time
	if !s.deadline.IsZero() {
		limit = time.After(time.Until(s.deadline))
	}
	for {
		var due <-chan time.Time
		next, left, there := s.in.take()
		switch {
		case there:
			n = copy(b, next.bytes)
			if len(next.fds) > 0 {
				m = copy(oob, unix.UnixRights(next.fds...))
			}
			return n, m, 0, nil, nil
		case left > 0:
			due = time.After(left)
		}
		select {
		case <-s.in.news:
		case <-due:
		case <-s.in.over:
			return 0, 0, 0, nil, net.ErrClosed
		case <-limit:
			return 0, 0, 0, nil, os.ErrDeadlineExceeded
		}
	}
}

// take takes a message that has arrived, or says how long the next one still takes.
func (q *queue) take() (m message, left time.Duration, there bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return m, 0, false
	}
	if left = time.Until(q.messages[0].at); left > 0 {
		return m, left, false
	}
	m, q.messages = q.messages[0], q.messages[1:]
	return m, 0, true
}

// Close implements link.Socket, for both ends.
func (s *socket) Close() error {
	s.in.once.Do(func() { close(s.in.over) })
	for _, q := range []*queue{s.in, s.out} {
		q.mu.Lock()
		for _, m := range q.messages {
			link.CloseFiles(m.fds)
		}
		q.messages = nil
		q.mu.Unlock()
	}
	return nil
}

// SetDeadline implements link.Socket. It is for the next read.
func (s *socket) SetDeadline(t time.Time) error { s.deadline = t; return nil }

// SetWriteDeadline implements link.Socket: no write waits.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn implements link.Socket.
func (s *socket) SyscallConn() (syscall.RawConn, error) {
	return nil, errors.New("a simulated connection has no descriptor")
}

// network connects VMs to the arbiter, if there is one.
type network struct {
	mu   sync.Mutex
	dice *rand.Rand
	host *simulatedArbiter
	slow time.Duration // the longest that a message takes on a busy host
}

// delay is how long a message takes: mostly less than 500 us, and one in 20 up to slow.
func (n *network) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dice.IntN(20) == 0 {
		return time.Duration(n.dice.Int64N(int64(n.slow)))
	}
	return time.Duration(n.dice.Int64N(int64(500 * time.Microsecond)))
}

// dial connects a VM.
func (n *network) dial(string) (link.Socket, error) {
	n.mu.Lock()
	host := n.host
	n.mu.Unlock()
	if host == nil {
		return nil, unix.ECONNREFUSED
	}
	return host.take(n)
}

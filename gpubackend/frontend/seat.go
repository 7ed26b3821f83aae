// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// acceptPause is the wait after a connection that couldn't be accepted: for example, no descriptors
// are left, which passes.
const acceptPause = time.Second

// Seat is for one front end at a time. It accepts other connections too, and closes them at once:
// otherwise their front ends would hang.
type Seat struct {
	listener *net.UnixListener
	log      logrus.FieldLogger
	driver   func() bool // whether the guest's driver has the device
	in       chan *net.UnixConn
	taken    chan struct{} // answers each of in: this connection is served
	done     chan struct{}
	once     sync.Once

	mu      sync.Mutex
	serving *net.UnixConn // guarded by mu; nil: nobody
}

// NewSeat opens a seat, which owns the listener. driver says whether the guest's driver has the
// device, for connections that ask.
func NewSeat(l *net.UnixListener, log logrus.FieldLogger, driver func() bool) *Seat {
	s := &Seat{listener: l, log: log, driver: driver, in: make(chan *net.UnixConn),
		taken: make(chan struct{}), done: make(chan struct{})}
	go s.accept()
	return s
}

// Close ends the seat, and removes its socket if it was made for it.
func (s *Seat) Close() {
	s.once.Do(func() {
		close(s.done)
		_ = s.listener.Close()
	})
}

// Next waits for a front end. Until Next is called again no other is served, unless this one hangs
// up.
func (s *Seat) Next(ctx context.Context) (*net.UnixConn, error) {
	s.serve(nil)
	select {
	case c := <-s.in:
		s.serve(c)
		s.taken <- struct{}{}
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Serves announces a front end that is served although Next didn't return it.
func (s *Seat) Serves(c *net.UnixConn) { s.serve(c) }

func (s *Seat) serve(c *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = c
}

// busy says whether a front end is there.
func (s *Seat) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serving != nil && !HungUp(s.serving)
}

func (s *Seat) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log.WithError(err).Warn("take a connection to the socket")
			select {
			case <-s.done:
				return
			case <-time.After(acceptPause):
			}
		case s.busy():
			s.turnAway(c)
		case asked(c, free):
			_ = c.Close()
		case !s.let(c):
			return
		}
	}
}

// turnAway ends a connection that comes while a front end is served, after an answer if it only
// asks something.
func (s *Seat) turnAway(c *net.UnixConn) {
	defer c.Close()
	now := served
	if s.driver() {
		now = driven
	}
	if !asked(c, now) {
		s.log.Warn("a second front end has connected, and is refused: " +
			"a device process serves one VM. Start another one, with a socket of its own")
	}
}

// let hands a connection to Next.
func (s *Seat) let(c *net.UnixConn) bool {
	select {
	case s.in <- c:
		<-s.taken
		return true
	case <-s.done:
		_ = c.Close()
		return false
	}
}

// HungUp says whether a connection is closed, by either end.
func HungUp(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	fds := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, _ = unix.Ppoll(fds, &unix.Timespec{}, nil)
	})
	return err != nil || fds[0].Revents != 0
}

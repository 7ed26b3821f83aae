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

// acceptPause is how long no connection is taken after one could not be: no descriptors left, say,
// which passes.
const acceptPause = time.Second

// Door lets one front end in at a time. It takes the others' connections too, and ends them at
// once: a front end whose connection waited would wait with it.
type Door struct {
	listener *net.UnixListener
	log      logrus.FieldLogger
	driver   func() bool // whether the guest's driver has the device
	in       chan *net.UnixConn
	taken    chan struct{} // after each of in: it is the one that is served
	done     chan struct{}
	once     sync.Once

	mu      sync.Mutex
	serving *net.UnixConn // guarded by mu; nil: nobody
}

// NewDoor opens one; it closes the listener with itself. driver answers those who ask.
func NewDoor(l *net.UnixListener, log logrus.FieldLogger, driver func() bool) *Door {
	d := &Door{listener: l, log: log, driver: driver, in: make(chan *net.UnixConn),
		taken: make(chan struct{}), done: make(chan struct{})}
	go d.accept()
	return d
}

// Close closes the door, and removes its socket if it was made for it.
func (d *Door) Close() {
	d.once.Do(func() {
		close(d.done)
		_ = d.listener.Close()
	})
}

// Next waits for a front end. Until Next is called again there is no other, unless this one hangs
// up.
func (d *Door) Next(ctx context.Context) (*net.UnixConn, error) {
	d.serve(nil)
	select {
	case c := <-d.in:
		d.serve(c)
		d.taken <- struct{}{}
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Serves tells of a front end that is there without having come in by Next.
func (d *Door) Serves(c *net.UnixConn) { d.serve(c) }

func (d *Door) serve(c *net.UnixConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serving = c
}

// busy says whether a front end is there.
func (d *Door) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.serving != nil && !HungUp(d.serving)
}

func (d *Door) accept() {
	for {
		c, err := d.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			d.log.WithError(err).Warn("take a connection to the socket")
			select {
			case <-d.done:
				return
			case <-time.After(acceptPause):
			}
		case d.busy():
			d.turnAway(c)
		case asked(c, free):
			_ = c.Close()
		case !d.let(c):
			return
		}
	}
}

// turnAway ends a connection that comes while a front end is served, after an answer if it only
// asks something.
func (d *Door) turnAway(c *net.UnixConn) {
	defer c.Close()
	now := served
	if d.driver() {
		now = driven
	}
	if !asked(c, now) {
		d.log.Warn("a second front end has connected, and is refused: " +
			"a device process serves one VM. Start another one, with a socket of its own")
	}
}

// let hands a connection to Next.
func (d *Door) let(c *net.UnixConn) bool {
	select {
	case d.in <- c:
		<-d.taken
		return true
	case <-d.done:
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

// SPDX-License-Identifier: Apache-2.0

package strangers

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
)

const (
	soon   = time.Minute
	little = 50 * time.Millisecond
)

// asked is what a Watch asked for: a queue's chains, if they are still to be returned.
type asked struct {
	queue int
	still func() bool
}

// rig is a Watch, and queues whose kicks are eventfds.
type rig struct {
	*Watch
	t     *testing.T
	asked chan asked
	kicks map[int]int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	text := logrus.New()
	text.SetOutput(io.Discard)
	r := &rig{t: t, asked: make(chan asked, 8), kicks: map[int]int{}}
	r.Watch = New(Config{
		Return: func(queue int, still func() bool) { r.asked <- asked{queue, still} },
		Guard:  func(_ string, f func()) bool { f(); return true },
		Log:    logrus.NewEntry(text),
	})
	return r
}

// start has a queue watched.
func (r *rig) start(queue int) {
	r.t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { unix.Close(fd) })
	r.kicks[queue] = fd
	r.Begin(queue, func() (*vhostuser.Waiter, error) {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		kick := vhostuser.NewFD(own)
		defer kick.Close()
		return kick.Waiter()
	})
}

func (r *rig) kick(queue int) {
	_, _ = unix.Write(r.kicks[queue], []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// mustAsk says what is asked for next.
func (r *rig) mustAsk() asked {
	r.t.Helper()
	select {
	case a := <-r.asked:
		return a
	case <-time.After(soon):
		r.t.Fatal("nobody returns a stranger's requests")
	}
	return asked{}
}

func (r *rig) mustBeQuiet(when string) {
	r.t.Helper()
	select {
	case a := <-r.asked:
		r.t.Fatalf("requests in queue %d go back %s", a.queue, when)
	case <-time.After(little):
	}
}

// TestKicks: each has the requests in its queue returned, unless the queue has stopped meanwhile,
// even if it was started again.
func TestKicks(t *testing.T) {
	r := newRig(t)
	r.start(1)
	r.start(2)
	for _, queue := range []int{2, 1, 2} {
		r.kick(queue)
		if a := r.mustAsk(); a.queue != queue || !a.still() {
			t.Errorf("queue %d, still: %t", a.queue, a.still())
		}
	}
	r.kick(1)
	late := r.mustAsk()
	r.End(1)
	if late.still() {
		t.Error("the requests of a queue that stopped are to go back")
	}
	r.End(1) // nothing is watched
	r.start(1)
	if late.still() {
		t.Error("what was asked before a queue stopped holds for the one after it")
	}
	r.kick(1)
	if a := r.mustAsk(); a.queue != 1 || !a.still() {
		t.Errorf("queue %d, still: %t", a.queue, a.still())
	}
	r.Greet()
}

// TestGreet ends the watching, of queues that start later too.
func TestGreet(t *testing.T) {
	r := newRig(t)
	r.start(1)
	r.kick(1)
	before := r.mustAsk()
	if r.Greeted() {
		t.Error("it has greeted")
	}
	r.Greet()
	if !r.Greeted() || before.still() {
		t.Error("a stranger's requests go back although our driver has greeted")
	}
	r.kick(1)
	r.start(2)
	r.kick(2)
	r.mustBeQuiet("after our driver has greeted")
	r.Expect(false)
	r.start(3)
	r.kick(3)
	if a := r.mustAsk(); a.queue != 3 {
		t.Errorf("queue %d", a.queue)
	}
	r.End(3)
}

// TestNoWaiter: a queue whose kicks can't be waited for isn't watched, and nothing else is amiss.
func TestNoWaiter(t *testing.T) {
	r := newRig(t)
	r.Begin(1, func() (*vhostuser.Waiter, error) { return nil, errors.New("no descriptors left") })
	r.End(1)
	r.Greet()
}

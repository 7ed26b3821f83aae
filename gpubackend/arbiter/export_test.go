// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// Simulated starts an arbiter in simulated time. Its loop waits with poll, and its time is clock's.
func Simulated(
	c Config, poll func([]unix.PollFd, *unix.Timespec, *unix.Sigset_t) (int, error),
	clock func() turns.Time,
) (*Arbiter, error) {
	l, err := newLoop()
	if err != nil {
		return nil, err
	}
	l.poll, l.clock.real = poll, clock
	return begin(c, l, func() {}), nil
}

// SimulateHost makes package time's clock, which a simulation advances, the host's clock.
func SimulateHost() (end func()) {
	before, begin := hostClock, time.Now()
	hostClock = func() turns.Time { return turns.Time(time.Hour) + time.Since(begin) }
	return func() { hostClock = before }
}

// ServeOne serves one connection.
func (a *Arbiter) ServeOne(c *link.Conn) { a.serve(c) }

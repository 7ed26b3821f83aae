// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/turns"
)

// Now is the host's monotonic clock, which is the same for all processes.
func Now() turns.Time { return hostClock() }

// hostClock is a variable for simulations, whose time isn't the host's.
var hostClock = func() turns.Time {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return turns.Time(t.Nano())
}

// beatEvery is how often the arbiter shows that it lives, and repairs what others wrote.
const beatEvery = 100 * time.Millisecond

// BeatTimeout is after how long without a beat an arbiter counts as gone.
const BeatTimeout = 400 * time.Millisecond

// clock is the time that the loop has seen, which its schedulers use. Time for which the process
// was stopped is left out: gates were open to all, and nobody is charged for that.
type clock struct {
	real func() turns.Time // nil: Now
	seen turns.Time        // when now was last asked for; 0: never
	away turns.Time
}

// now must be asked for in less than BeatTimeout.
func (c *clock) now() turns.Time {
	now := Now
	if c.real != nil {
		now = c.real
	}
	t := now()
	if c.seen != 0 && t-c.seen > turns.Time(BeatTimeout) {
		c.away += t - c.seen
	}
	c.seen = t
	return t - c.away
}

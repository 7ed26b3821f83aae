// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/turns"
)

// Now is the host's monotonic clock, which all processes see alike.
func Now() turns.Time {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return turns.Time(t.Nano())
}

// beatEvery is how often the arbiter shows that it lives, and puts right what others wrote.
const beatEvery = 100 * time.Millisecond

// BeatTimeout is after how long without a beat an arbiter counts as gone.
const BeatTimeout = 400 * time.Millisecond

// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/turns"
)

// TestTimeThatTheLoopDidntSee: only times of more than BeatTimeout between two looks are left out.
func TestTimeThatTheLoopDidntSee(t *testing.T) {
	host := turns.Time(time.Hour)
	c := clock{real: func() turns.Time { return host }}
	begin := c.now()
	for _, x := range []struct{ passes, want time.Duration }{
		{beatEvery, beatEvery},
		{BeatTimeout, beatEvery + BeatTimeout},
		{BeatTimeout + 1, beatEvery + BeatTimeout},
		{time.Minute, beatEvery + BeatTimeout},
		{time.Millisecond, beatEvery + BeatTimeout + time.Millisecond},
	} {
		host += turns.Time(x.passes)
		if got := time.Duration(c.now() - begin); got != x.want {
			t.Errorf("%v later it is %v, want %v", x.passes, got, x.want)
		}
	}
}

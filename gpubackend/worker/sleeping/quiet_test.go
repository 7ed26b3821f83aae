// SPDX-License-Identifier: Apache-2.0

package sleeping

import (
	"testing"
	"time"
)

const us = time.Microsecond

// TestQuiet: the guess is the last wait that was longer than the worker polls in any case.
func TestQuiet(t *testing.T) {
	const spin = 500 * us
	begin := time.Now()
	cases := map[string]struct {
		waits []time.Duration // before this one
		idle  time.Duration
		calls bool // wait for the GPU now
		spin  time.Duration
		want  bool
	}{
		"no wait before": {idle: 4000 * us, calls: true, spin: spin},
		"as long": {waits: []time.Duration{4000 * us}, idle: 4000 * us, calls: true,
			spin: spin, want: true},
		"a little less": {waits: []time.Duration{4000 * us}, idle: 3700 * us, calls: true,
			spin: spin, want: true},
		"a little more": {waits: []time.Duration{4000 * us}, idle: 4300 * us, calls: true,
			spin: spin, want: true},
		"less": {waits: []time.Duration{4000 * us}, idle: 3600 * us, calls: true,
			spin: spin},
		"more": {waits: []time.Duration{4000 * us}, idle: 4400 * us, calls: true,
			spin: spin},
		"a short one between": {waits: []time.Duration{4000 * us, 40 * us}, idle: 4000 * us,
			calls: true, spin: spin, want: true},
		"another since": {waits: []time.Duration{4000 * us, 2000 * us}, idle: 4000 * us,
			calls: true, spin: spin},
		"nobody waits": {waits: []time.Duration{4000 * us}, idle: 4000 * us, spin: spin},
		"no longer than spin": {waits: []time.Duration{time.Minute}, idle: time.Minute - 600*us,
			calls: true, spin: spin},
		"which may be nothing": {waits: []time.Duration{4000 * us}, idle: 4000 * us, calls: true},
		"or less than the rest": {waits: []time.Duration{4000 * us}, idle: 3940 * us, calls: true,
			spin: 50 * us},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var q quiet
			q.end()
			for _, wait := range c.waits {
				q.goOn(begin, spin, true)
				q.goOn(begin.Add(wait), spin, true)
				q.end()
			}
			q.goOn(begin, spin, false)
			if got := q.goOn(begin.Add(c.idle), spin, c.calls); got != c.idle {
				t.Errorf("quiet for %v, want %v", got, c.idle)
			}
			if got := q.due(c.spin); got != c.want {
				t.Errorf("due: %v", got)
			}
		})
	}
}

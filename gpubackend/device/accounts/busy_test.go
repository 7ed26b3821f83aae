// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"testing"
	"time"
)

func TestBusyFraction(t *testing.T) {
	begin := time.Unix(1000, 0)
	var b busy
	for _, step := range []struct {
		at     time.Duration
		gpu    time.Duration // in all
		shared float64       // as the arbiter told just before; 0: it didn't
		want   float64       // -1: the window isn't over
	}{
		{0, 50 * time.Second, 0, 0}, // since the VM began: of no use
		{busyWindow / 2, 51 * time.Second, 0, -1},
		{2 * busyWindow, 51 * time.Second, 0, 0.5},
		{3 * busyWindow, 55 * time.Second, 0, 1}, // several processes at once
		{4 * busyWindow, 56 * time.Second, 0.25, 0.25},
		{5 * busyWindow, 57 * time.Second, 0, 0.25},
		{6 * busyWindow, 57 * time.Second, 0, 0}, // the arbiter has gone
		{7 * busyWindow, 50 * time.Second, 0, 0}, // a worker that lies
	} {
		now := begin.Add(step.at)
		if step.shared != 0 {
			b.share, b.sharedAt = step.shared, now
		}
		got, ok := b.fraction(now, uint64(step.gpu))
		if !ok {
			got = -1
		}
		if got != step.want {
			t.Errorf("%+v: %g", step, got)
		}
	}
}

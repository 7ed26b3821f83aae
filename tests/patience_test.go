// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"testing"
	"time"

	bound "github.com/paracuda/paracuda/internal/patience"
)

// patience is a bound on how long a test waits. On a busy machine it is longer.
type patience struct{ *bound.Patience }

func patienceOf(most time.Duration) *patience { return &patience{bound.Of(most)} }

// renew starts the time again.
func (p *patience) renew() { p.Renew() }

// over says whether the time has passed.
func (p *patience) over() bool { return p.Over() }

// withPatience is context.WithTimeout with patience.
func withPatience(parent context.Context, most time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	go patienceOf(most).end(ctx, cancel)
	return ctx, cancel
}

// end calls a function when the time has passed, unless the context is done before.
func (p *patience) end(ctx context.Context, end func()) {
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if p.over() {
				end()
				return
			}
		}
	}
}

// awaits says whether the channel is closed in time.
func awaits(done <-chan struct{}, most time.Duration) bool {
	ctx, cancel := withPatience(context.Background(), most)
	defer cancel()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// until waits until something has happened, or fails the test.
func until(t *testing.T, most time.Duration, what string, happened func() bool) {
	t.Helper()
	for p := patienceOf(most); !happened(); time.Sleep(100 * time.Millisecond) {
		if p.over() {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// endsIn says whether something has ended in time, and how.
func endsIn(ended <-chan error, most time.Duration) (in bool, how error) {
	ctx, cancel := withPatience(context.Background(), most)
	defer cancel()
	select {
	case how = <-ended:
		return true, how
	case <-ctx.Done():
		return false, nil
	}
}

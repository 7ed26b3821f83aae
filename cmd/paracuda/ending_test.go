// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// TestEnsureEnd: the process is ended when it is told to end or its front end is gone, and not before.
func TestEnsureEnd(t *testing.T) {
	for name, end := range map[string]func(stop func(), near, far interface{ Close() error }){
		"signal":            func(stop func(), _, _ interface{ Close() error }) { stop() },
		"front end is gone": func(_ func(), near, _ interface{ Close() error }) { _ = near.Close() },
		"session is over":   func(_ func(), _, far interface{ Close() error }) { _ = far.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := vhostusertest.Pair(t)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			ended := make(chan struct{})
			ensureEnd(ctx, far, nil, time.Millisecond, time.Millisecond, func() { close(ended) })
			select {
			case <-ended:
				t.Fatal("ended with a front end")
			case <-time.After(50 * time.Millisecond):
			}
			end(stop, near, far)
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("not ended")
			}
		})
	}
}

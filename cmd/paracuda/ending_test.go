// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// TestEnsureEnd: the process is ended when it is told to end or its front end is gone, and not
// before.
func TestEnsureEnd(t *testing.T) {
	for name, end := range map[string]func(stop func(), near, far interface{ Close() error }){
		"signal": func(stop func(), _, _ interface{ Close() error }) { stop() },
		"front end is gone": func(_ func(), near,
			_ interface{ Close() error }) {
			_ = near.Close()
		},
		"session is over": func(_ func(), _, far interface{ Close() error }) { _ = far.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := vhostusertest.Pair(t)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			ended := make(chan struct{})
			e := ending{limit: time.Millisecond, look: time.Millisecond,
				exit: func() { close(ended) }}
			e.ensure(ctx, far, nil)
			select {
			case <-ended:
				t.Fatal("ended with a front end")
			case <-time.After(50 * time.Millisecond):
			}
			end(stop, near, far)
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("not ended")
			}
		})
	}
}

// TestEndedByItself: a process that ends in time, or goes on after its session, isn't ended.
func TestEndedByItself(t *testing.T) {
	for _, name := range []string{"process", "session"} {
		t.Run(name, func(t *testing.T) {
			_, far := vhostusertest.Pair(t)
			ctx, stop := context.WithCancel(context.Background())
			over := map[string]chan struct{}{"process": make(chan struct{}),
				"session": make(chan struct{})}
			close(over[name])
			e := ending{limit: 50 * time.Millisecond, look: time.Millisecond, done: over["process"],
				exit: func() { t.Error("ended") }}
			e.ensure(ctx, far, over["session"])
			stop()
			time.Sleep(100 * time.Millisecond)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/pace/pacetest"
)

// TestConnectionsArePaced: connections that come too early wait in the socket's queue.
func TestConnectionsArePaced(t *testing.T) {
	a, clock := newArbiter(t, nil), pacetest.NewClock()
	a.arrivals = pace.New(1, 2, clock)
	r := serve(t, a)
	t.Cleanup(func() { clock.Advance(time.Hour) }) // else Serve waits, and doesn't see its end
	for range 2 {
		r.ask(link.Request{Kind: link.List})
	}
	clock.AwaitWaiters(1)
	third := make(chan struct{})
	go func() {
		defer close(third)
		c, err := link.Dial(r.path, time.Second)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if err := c.Send(&link.Request{Version: link.Version, Kind: link.List}); err != nil {
			t.Error(err)
		}
		if _, err := c.Receive(&link.Answer{}, 0); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-third:
		t.Error("the third connection doesn't wait")
	case <-time.After(50 * time.Millisecond):
	}
	clock.Advance(time.Second)
	<-third
}

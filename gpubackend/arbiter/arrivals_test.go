// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/pace/pacetest"
)

// TestConnectionsArePaced: those that come too early stay in the socket's queue.
func TestConnectionsArePaced(t *testing.T) {
	l := logrus.New()
	l.SetOutput(io.Discard)
	a, err := New(Config{Log: logrus.NewEntry(l)})
	if err != nil {
		t.Fatal(err)
	}
	clock := pacetest.NewClock()
	a.arrivals = pace.New(1, 2, clock)
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := net.ListenUnix(link.Network, &net.UnixAddr{Name: path, Net: link.Network})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- a.Serve(socket) }()

	r := &rig{t, path, a}
	for range 2 {
		r.ask(link.Request{Kind: link.List})
	}
	clock.AwaitWaiters(1)
	third := make(chan struct{})
	go func() {
		defer close(third)
		c, err := link.Dial(path, time.Second)
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

	socket.Close()
	a.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

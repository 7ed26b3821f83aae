// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// TestHostNodes launches a graph several times. Each launch waits in the driver until the function
// of the launch before has been released.
func TestHostNodes(t *testing.T) {
	const token, launches = 1<<63 | 5, 20
	d := newDevice(t, Options{})
	var called, released atomic.Int32
	due := make(chan func(), launches)
	call := func(got uint64, release func()) {
		if got != token {
			t.Errorf("function %#x is due", got)
		}
		if n := called.Add(1); n != released.Load()+1 {
			t.Errorf("call %d is due, and %d were released", n, released.Load())
		}
		due <- release
	}
	g, r := d.GraphCreate(0)
	must(t, "create", r)
	_, _, _, r = d.GraphAddNode(g, nil, nil,
		&gpubackend.Node{Type: gpubackend.NodeHost, Token: token, Call: call})
	must(t, "add", r)
	e, r := d.GraphInstantiateWithFlags(g, 0)
	must(t, "instantiate", r)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for release := range due {
			if n := len(due); n > 0 {
				t.Errorf("%d calls are due beside the first", n)
			}
			released.Add(1)
			release()
			release() // which must not count for the next one
		}
	}()
	for range launches {
		must(t, "launch", d.GraphLaunch(e, 0))
	}
	for end := time.Now().Add(time.Minute); released.Load() < launches; {
		if time.Now().After(end) {
			t.Fatalf("%d launches, %d calls, %d released", launches, called.Load(), released.Load())
		}
		time.Sleep(time.Millisecond)
	}
	close(due)
	<-ended
	if n := called.Load(); n != launches {
		t.Errorf("%d launches, %d calls", launches, n)
	}
}

// TestAwaitsHostOfGraph: a stream that a graph's function holds isn't asked, others are.
func TestAwaitsHostOfGraph(t *testing.T) {
	d := newDevice(t, Options{})
	due := make(chan func(), 1)
	g, r := d.GraphCreate(0)
	must(t, "create", r)
	_, _, _, r = d.GraphAddNode(g, nil, nil, &gpubackend.Node{Type: gpubackend.NodeHost,
		Token: 1<<63 | 5, Call: func(_ uint64, release func()) { due <- release }})
	must(t, "add", r)
	e, r := d.GraphInstantiateWithFlags(g, 0)
	must(t, "instantiate", r)
	held, r := d.StreamCreateWithPriority(1, 0)
	must(t, "create", r)
	other, r := d.StreamCreateWithPriority(1, 0)
	must(t, "create", r)
	must(t, "launch", d.GraphLaunch(e, held))
	release := <-due
	asked := drivertest.Count("cuStreamQuery")
	if !d.AwaitsHost() || drivertest.Count("cuStreamQuery") != asked {
		t.Error("the graph's stream is held, and nothing else was begun")
	}
	l := emptyLaunch(loadSilent(t, d, "empty"))
	l.Stream = other
	must(t, "launch", d.Launch(l))
	drivertest.Tell("fake_not_ready", 1)
	if d.AwaitsHost() {
		t.Error("another stream goes on")
	}
	if !d.AwaitsHost() {
		t.Error("the other stream has ended")
	}
	release()
	if d.AwaitsHost() {
		t.Error("the function has returned")
	}
}

// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// known gives every handle a stream, whose number is one more than the handle.
type known struct{}

func (known) Known(_ *call.Call, handle uint64) gpubackend.Stream {
	return gpubackend.Stream(handle + 1)
}

func commandOf(op gpubackend.Op, words ...uint64) *call.Call {
	a := &arena.Command{N: len(words), Body: make([]byte, 8*len(words))}
	a.Op, a.Context = uint16(op), 9
	copy(a.Words[:], words)
	c := call.New(nil)
	c.Start(a)
	return &c
}

// TestNoGate: without a gate nothing is held, waited for or told.
func TestNoGate(t *testing.T) {
	d := NewDoor(nil, known{})
	d.Submitted()
	d.Executed()
	d.Standstill()
	d.Watch(Pause{Now: time.Now(), Idle: time.Hour})
	for name, got := range map[string]bool{
		"gated": d.Begin(), "ripe": d.Ripe(), "stopped": d.Stopped(), "closed": d.Closed(),
		"opens soon": d.Soon(), "in flight": d.InFlight(), "unfinished": d.Unfinished(),
		"closed for copies": !d.May(), "closed for answers": !d.MayAnnounce(),
		"has a file": d.WaitFD() >= 0,
	} {
		if got {
			t.Errorf("without a gate it is %s", name)
		}
	}
}

// TestWorkOf: a command's work is told apart by stream, and by what it does there.
func TestWorkOf(t *testing.T) {
	d := NewDoor(nil, known{})
	launch := func(words ...uint64) (Stream, Kind) {
		return d.workOf(commandOf(gpubackend.OpLaunchKernel, words...))
	}
	s, k := launch(5, 3, 1|1<<32, 1|32<<32, 1|1<<32, 0, 0)
	if s != (Stream{9, 4}) || k.ID != 5 || k.Op != gpubackend.OpLaunchKernel {
		t.Errorf("a launch: %+v, %+v", s, k)
	}
	if _, other := launch(5, 3, 1000|1<<32, 1|32<<32, 1|1<<32, 0, 0); other == k {
		t.Errorf("a larger launch is of the same kind: %+v", other)
	}
	if _, short := launch(5, 3); short.ID != 0 {
		t.Errorf("a launch that is none: %+v", short)
	}
	if s, k := d.workOf(commandOf(gpubackend.OpGraphLaunch, 8, 2)); s.Native != 3 || k.ID != 8 {
		t.Errorf("a graph: %+v, %+v", s, k)
	}
}

// TestDoorAtAGate: what gives no work passes a closed gate, and what does doesn't.
func TestDoorAtAGate(t *testing.T) {
	r := newRig(t, gate.State{Attend: true, Soon: true})
	d := NewDoor(r.Admission, known{})
	if !d.Begin() || !d.Admits(commandOf(gpubackend.OpCtxGetLimit, 0)) || d.Stopped() {
		t.Error("a question is stopped")
	}
	launch := commandOf(gpubackend.OpLaunchKernel, 5, 0, 1|1<<32, 1|32<<32, 1|1<<32, 0, 0)
	if d.Admits(launch) || !d.Stopped() || !d.Closed() || !d.Soon() || d.WaitFD() < 0 ||
		d.May() || d.MayAnnounce() {
		t.Error("a launch passes a closed gate")
	}
	r.page.Set(gate.State{Open: true, Attend: true, InFlight: time.Millisecond})
	if !d.Begin() || d.Closed() || d.WaitFD() >= 0 || !d.Admits(launch) || d.Ripe() {
		t.Error("a launch doesn't pass an open gate")
	}
	d.Executed()
	if !d.InFlight() || !d.Unfinished() {
		t.Error("what passed isn't in flight")
	}
	d.Standstill()
	if d.InFlight() || d.Unfinished() {
		t.Error("it is in flight when all stands still")
	}
}

// TestWatch: the arbiter is told of the end of work after a short rest in a turn, at once where it
// waits for that, and at a free gate when the worker doesn't poll any more.
func TestWatch(t *testing.T) {
	ajar := gate.State{Open: true, Attend: true, InFlight: time.Millisecond}
	free := ajar
	free.Free = true
	shut := ajar
	shut.Open = false
	for name, x := range map[string]struct {
		state gate.State
		q     Pause
		told  bool
	}{
		"in a turn":              {ajar, Pause{Idle: restAfter - 1, Spin: time.Second}, false},
		"after a rest":           {ajar, Pause{Idle: restAfter, Spin: time.Second}, true},
		"without polling":        {ajar, Pause{}, true},
		"held":                   {ajar, Pause{Spin: time.Second, Held: true}, true},
		"after its turn":         {shut, Pause{Spin: time.Second}, true},
		"free, polling":          {free, Pause{Idle: time.Second - 1, Spin: time.Second}, false},
		"free, before it sleeps": {free, Pause{Idle: time.Second, Spin: time.Second}, true},
		"free, with a call":      {free, Pause{Idle: time.Second, Waits: true}, false},
	} {
		r := newRig(t, x.state)
		d := NewDoor(r.Admission, known{})
		if d.Begin() {
			r.page.Set(ajar)
			if r.Admit(stream(1), kernel(1)) != Pass {
				t.Fatal("it is shut")
			}
			r.page.Set(x.state)
		}
		d.Executed()
		r.gpu.now = r.gpu.now.Add(time.Minute)
		x.q.Now, x.q.Since = r.gpu.now, r.gpu.now
		d.Watch(x.q)
		if d.Unfinished() == x.told {
			t.Errorf("%s: unfinished %v", name, d.Unfinished())
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TestWorkerOfAnEarlierProcess: the worker goes on with its queue. It has it already, or waits for
// it and gets it, whether it says so before the queue starts or after. When it ends, its chains go
// back.
func TestWorkerOfAnEarlierProcess(t *testing.T) {
	for name, test := range map[string]struct{ waits, first bool }{
		"has its queue":             {false, false},
		"says first that it has it": {false, true},
		"waits":                     {true, false},
		"says first that it waits":  {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.script = r.noting
			r.strangers.Expect(true)
			p := workers.Program{PID: 9, Name: "prog"}
			w, err := r.workers.Start(handover.Policy{}, workers.Cold)
			if err != nil {
				t.Fatal(err)
			}
			w.Serve(0, p)
			head := r.add(0)
			take(w, head, 1)
			r.TakenOver(0, 0, w)
			if r.Worker(0) != w || !r.Used() {
				t.Fatal("it has no channel")
			}
			q := r.config(0, 0)
			q.Resumed = true
			if test.first {
				r.Rejoins(w, test.waits)
			}
			if err := r.Start(0, q); err != nil {
				t.Fatal(err)
			}
			r.mustKnowRings(w, &q)
			if !test.first {
				r.Rejoins(w, test.waits)
			}
			if test.waits {
				r.mustBeTold(handover.KindResume, 1)
			}
			r.mustKeep(0)
			if len(r.told) > 0 && !test.waits {
				t.Errorf("it was told %q", r.told)
			}
			r.die(w)
			r.mustReap(0, head)
		})
	}
}

// TestOpenedByAnEarlierProcess: an OPEN that the earlier process obeyed is answered again, once,
// and for that program alone.
func TestOpenedByAnEarlierProcess(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	p := workers.Program{PID: 9, Name: "prog"}
	w, err := r.workers.Start(handover.Policy{}, workers.Cold)
	if err != nil {
		t.Fatal(err)
	}
	w.Serve(0, p)
	if r.HasOpened(0, p) {
		t.Error("a channel without a worker is open")
	}
	r.TakenOver(0, 0, w)
	if r.HasOpened(0, workers.Program{PID: 8}) || !r.HasOpened(0, p) || r.HasOpened(0, p) {
		t.Error("it isn't opened once more, for its program alone")
	}
	r.TakenOver(0, 0, w)
	take(w, 3, 1) // its program has begun
	if r.HasOpened(0, p) {
		t.Error("a program that has begun is begun again")
	}
}

// TestEndedBeforeItBegan: the successor of a warm worker that the earlier process was about to
// start, or had started, is started if it has done nothing yet. Nothing goes back to the driver.
func TestEndedBeforeItBegan(t *testing.T) {
	p := workers.Program{PID: 9, Name: "prog"}
	for name, test := range map[string]struct {
		found, first, serves, again bool // it was started; it ends before the queue starts
	}{
		"not started":              {again: true},
		"ends at once":             {found: true, first: true, again: true},
		"ends":                     {found: true, again: true},
		"serves, and ends at once": {found: true, first: true, serves: true},
		"serves, and ends":         {found: true, serves: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.strangers.Expect(true)
			head := r.add(0)
			end := func() {}
			if test.found {
				w, err := r.workers.Start(handover.Policy{}, workers.Cold)
				if err != nil {
					t.Fatal(err)
				}
				w.Serve(0, p)
				w.State(func(s *handover.State) { s.AskCold() })
				r.TakenOver(0, 0, w)
				if test.serves {
					w.State(func(s *handover.State) { s.Serves() })
				}
				end = func() { r.die(w) }
			} else {
				r.AwaitsCold(0, 0, p)
			}
			if !r.Used() {
				t.Error("nobody has the channel")
			}
			if test.first {
				end()
			}
			q := r.config(0, 0)
			q.Resumed = true
			if err := r.Start(0, q); err != nil {
				t.Fatal(err)
			}
			if !test.first {
				end()
			}
			if !test.again {
				if r.mustReap(0, head); len(r.colds) > 0 {
					t.Error("another one is started")
				}
				return
			}
			if c := <-r.colds; c.channel != 0 || *c.program != p {
				t.Errorf("%+v", c)
			}
			r.mustKeep(0)
			r.begin(0, false)
			if got := r.Worker(0).Base(); got != 0 {
				t.Errorf("it begins at %d", got)
			}
		})
	}
}

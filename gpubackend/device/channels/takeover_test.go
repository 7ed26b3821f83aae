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

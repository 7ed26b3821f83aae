// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// take notes, as a worker does, that it has taken a chain.
func take(w *workers.Worker, head, base uint16) {
	w.State(func(s *handover.State) { s.Take(head, base) })
}

// TestWorkerDies: what it held goes back to the driver, and what it never took, too.
func TestWorkerDies(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	w := r.serve(0)
	if r.Worker(0) != w || len(r.Serving()) != 1 || !r.Used() || r.Free(0) {
		t.Fatal("it has no channel")
	}
	first, second := r.add(0), r.add(0)
	r.mustKeep(0)
	take(w, first, 1)
	w.State(func(s *handover.State) { s.Count(handover.Starts, 3) })
	r.die(w)
	r.mustReap(0, first, second)
	if r.Worker(0) != nil || r.Used() || !r.Free(0) {
		t.Error("it has a channel still")
	}
	if n := r.Counters()[handover.Starts]; n != 3 {
		t.Errorf("what it has counted is %d", n)
	}
}

// TestNotLent: the queue stays where it is.
func TestNotLent(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	w := r.serve(0)
	_, err := r.Assign(0, workers.Program{}, func(as *Assignment) (*workers.Worker, error) {
		if as.Worker() != w || !as.Runs() || as.Cold() != nil || as.Taken() != 1 {
			t.Errorf("worker %v, runs %t, %d are taken", as.Worker(), as.Runs(), as.Taken())
		}
		return nil, errNo
	})
	if !errors.Is(err, errNo) || r.Worker(0) != w {
		t.Fatalf("%v, worker %v", err, r.Worker(0))
	}
}

// TestEndsBeforeItServes: who started it goes on with the queue.
func TestEndsBeforeItServes(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	head := r.add(0)
	w := r.begin(0, false)
	r.die(w)
	r.mustKeep(0)
	if err := r.Serves(w, nil); err == nil {
		t.Error("it serves the channel")
	}
	r.serve(0)
	r.mustKeep(0)
	r.KillAll()
	r.mustReap(0, head)
}

// TestColdWorker: a warm worker that doesn't suit its program leaves it the queue as it was, and
// only if it has returned nothing.
func TestColdWorker(t *testing.T) {
	asks := func(s *handover.State) { s.AskCold() }
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	head := r.add(0)
	w := r.begin(0, true)
	if err := r.Serves(w, nil); err != nil {
		t.Fatal(err)
	}
	take(w, head, 1)
	w.State(asks)
	r.die(w)
	c := <-r.colds
	if c.channel != 0 || c.program.Name != "prog" || !r.Awaited(0) || !r.Used() {
		t.Fatalf("%+v", c)
	}
	r.mustKeep(0)
	if other := (&workers.Program{}); r.ColdFailed(0, other) {
		t.Error("another one's failure counts")
	}
	if !r.ColdFailed(0, c.program) {
		t.Error("it doesn't fail")
	}
	r.mustReap(0, head)

	for name, change := range map[string]func(*workers.Worker){
		"has returned a chain": func(w *workers.Worker) {
			w.State(func(s *handover.State) { s.SetBase(5) })
		},
		"is retired": (*workers.Worker).Retire,
	} {
		w := r.begin(0, true)
		if err := r.Serves(w, nil); err != nil {
			t.Fatal(err)
		}
		w.State(asks)
		change(w)
		r.die(w)
		if r.Awaited(0) {
			t.Errorf("one that %s is believed", name)
		}
	}
	w = r.serve(0) // it wasn't warm
	w.State(asks)
	r.die(w)
	if r.Awaited(0) {
		t.Error("one that was not warm is believed")
	}
}

// TestPauseAndGoOn: a queue goes on where it stopped, with the worker that had it.
func TestPauseAndGoOn(t *testing.T) {
	r := newRig(t)
	r.Table.config.Grace = func() time.Duration { return soon }
	r.script = r.noting
	r.strangers.Expect(true)
	r.start(0, 0)
	r.start(1, 0)
	w, other := r.serve(0), r.serve(1)
	take(w, r.add(0), 1)
	standstill := r.Standstill()
	standstill.Pause()
	base, err := r.Stop(0)
	if err != nil || base != 1 || r.Worker(0) != w {
		t.Fatalf("stopped at %d, %v", base, err)
	}
	if _, err := r.Stop(0); !errors.Is(err, queues.ErrNotRunning) {
		t.Fatal(err)
	}
	r.start(0, base)
	r.mustBeTold(handover.KindResume, 1)
	standstill.ResumeLater() // the other one's queue wasn't stopped
	r.mustBeTold(handover.KindResume, 2)
	if w.Killed() || other.Killed() {
		t.Fatal("one was killed")
	}
	if _, err := r.Stop(0); err != nil {
		t.Fatal(err)
	}
	r.start(0, 7) // elsewhere: then it can't go on
	if !await.Within(soon, w.Gone()) {
		t.Fatal("it goes on elsewhere")
	}
}

// TestWorkThatGoesOn: a worker that doesn't pause is killed, and its queue stops all the same.
func TestWorkThatGoesOn(t *testing.T) {
	r := newRig(t)
	r.script = func(c *childtest.Child) { <-c.Killed }
	r.strangers.Expect(true)
	r.start(0, 0)
	w := r.serve(0)
	if base, err := r.Stop(0); base != 0 || err != nil || !w.Killed() {
		t.Fatalf("stopped at %d, %v, killed %t", base, err, w.Killed())
	}
}

// TestStrangers get their requests back, and nobody's after our driver has greeted.
func TestStrangers(t *testing.T) {
	r := newRig(t)
	r.start(0, 0)
	r.mustReap(0, r.add(0))
	r.mustReap(0, r.add(0))
	r.strangers.Greet()
	if !r.strangers.Greeted() {
		t.Error("it hasn't greeted")
	}
	r.add(0)
	r.mustKeep(0)
}

// TestPagesOfALingeringMover stay with it: they are owed, and CLOSE waits for them.
func TestPagesOfALingeringMover(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	w := r.serve(0)
	first := r.add(0)
	end := r.lingers()
	r.die(w)
	r.mustKeep(0)
	if err := r.Stays(); err == nil || !strings.Contains(err.Error(), "mover") {
		t.Errorf("the VM could be saved: %v", err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.Close(0)
	}()
	<-r.parked
	r.mustKeep(0)
	close(end)
	<-closed
	r.mustReap(0, first)

	w = r.serve(0)
	second := r.add(0)
	end = r.lingers()
	r.die(w)
	r.mustKeep(0)
	close(end)
	r.GiveOwed()
	r.mustReap(0, second)
}

// TestLaterProgramsOwnTheirPages: a mover that lingered before they came keeps none of them. One
// that lingers since then does, and so does the first for a program that goes on in its channel.
func TestLaterProgramsOwnTheirPages(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	r.start(1, 0)
	r.DriverBegins()
	early := r.serve(0)
	owed := r.add(0)
	first := r.lingers()
	late := r.serve(1)
	head := r.add(1)
	r.die(late)
	r.mustReap(1, head)
	r.Close(1)

	late = r.serve(1)
	head = r.add(1)
	second := r.lingers()
	r.die(late)
	r.mustKeep(1)
	close(second)
	r.GiveOwed()
	r.mustReap(1, head)

	r.die(early)
	r.mustKeep(0)
	r.die(r.serve(0)) // while chains of the one before are owed
	r.mustKeep(0)
	close(first)
	r.GiveOwed()
	r.mustReap(0, owed)
}

// TestCloseOfAStuckWorker waits until it has ended.
func TestCloseOfAStuckWorker(t *testing.T) {
	end := make(chan struct{})
	r := newRig(t)
	r.script = func(*childtest.Child) { <-end }
	r.strangers.Expect(true)
	r.start(0, 0)
	r.serve(0)
	head := r.add(0)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.Close(0)
	}()
	<-r.parked
	if err := r.Stays(); err == nil {
		t.Error("the VM could be saved")
	}
	r.mustKeep(0)
	close(end)
	<-closed
	r.mustReap(0, head)
}

// TestAnotherDriver has the channels of an earlier one for itself.
func TestAnotherDriver(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	r.start(1, 0)
	w, other := r.serve(0), r.serve(1)
	take(w, r.add(0), 1)
	if _, err := r.Stop(0); err != nil {
		t.Fatal(err)
	}
	r.Begins(1) // its queue runs, and it has taken nothing yet
	if r.Worker(1) != other {
		t.Fatal("a worker that has taken nothing isn't its driver's")
	}
	r.DriverBegins() // one queue is stopped, the other one runs again already
	for i, was := range []*workers.Worker{w, other} {
		if r.Worker(i) != nil || !was.Killed() || !await.Closed(was.Gone()) {
			t.Fatalf("the earlier driver's worker of channel %d is left", i)
		}
	}
	r.drivers[0] = virtqueuetest.NewDriver(r.guest, 8, false)
	r.start(0, 0)
	r.mustReap(0)
	other = r.serve(1)
	take(other, r.add(1), 1)
	r.Begins(1)
	if r.Worker(1) != nil {
		t.Fatal("a worker goes on with a queue that begins anew")
	}
	r.mustKeep(1)
}

// TestSavedPrograms keep their chains for the workers that go on with them.
func TestSavedPrograms(t *testing.T) {
	r := newRig(t)
	r.strangers.Expect(true)
	r.start(0, 0)
	w := r.serve(0)
	head := r.add(0)
	take(w, head, 1)
	left := false
	r.Leave(w, func() {
		left = true
		r.saved.save(0, "saved")
	})
	if r.die(w); !left || !w.Retired() {
		t.Fatal("it hasn't left its channel")
	}
	r.Leave(w, func() { t.Error("it leaves its channel again") })
	r.mustKeep(0)
	if base, held := r.Filed().Standing(0); base != 1 || !slices.Equal(held, []uint16{head}) ||
		r.Stays() != nil || !r.Filed().Run() {
		t.Errorf("its queue is at %d, with %v in flight, %v", base, held, r.Stays())
	}
	r.saved.save(1, "elsewhere")
	if r.Filed().Run() {
		t.Error("a queue runs that doesn't")
	}
	r.saved.Forget(1)
	_, err := r.Assign(0, workers.Program{}, func(as *Assignment) (_ *workers.Worker, err error) {
		if w, err = r.workers.Start(handover.Policy{}, workers.Cold); err != nil {
			return nil, err
		}
		m, _ := as.Start(w, true, false)
		if !m.Saved || !slices.Equal(m.Queue.InFlight, []uint16{head}) || as.Taken() != 1 {
			t.Errorf("%+v, %d are taken", m.Queue, as.Taken())
		}
		return nil, errNo
	})
	if !errors.Is(err, errNo) {
		t.Fatal(err)
	}
	r.die(w)
	r.Close(0)
	r.mustReap(0, head)
	if err := r.Stays(); err != nil {
		t.Error(err)
	}
}

// TestNotSavedWhileClosed: the driver frees a channel's pages after CLOSE, so that nothing may go
// on with them later.
func TestNotSavedWhileClosed(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"closed": func(r *rig) { r.Close(0) }, "all are killed": func(r *rig) { r.KillAll() },
	} {
		t.Run(name, func(t *testing.T) {
			let := make(chan struct{})
			r := newRig(t)
			r.script = func(*childtest.Child) { <-let }
			r.start(0, 0)
			w := r.serve(0)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				end(r)
			}()
			for !w.Retired() {
				time.Sleep(time.Millisecond)
			}
			r.Leave(w, func() { t.Error("its program is saved") })
			close(let)
			<-ended
		})
	}
}

// TestNoQueueWithoutMemory starts.
func TestNoQueueWithoutMemory(t *testing.T) {
	r := newRig(t)
	before := r.Table.config.RAM.Put(nil)
	if err := r.Start(0, r.config(0, 0)); !errors.Is(err, queues.ErrNoMemory) {
		t.Fatal(err)
	}
	r.Table.config.RAM.Put(before)
	if err := r.SetCall(0, nil); !errors.Is(err, queues.ErrNotRunning) {
		t.Fatal(err)
	}
}

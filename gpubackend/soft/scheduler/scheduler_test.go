// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
)

// wait waits until a task is done.
func wait(t *testing.T, s *Scheduler, task *Task) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !s.IsDone(task); {
		if time.Now().After(end) {
			t.Fatal("a task is not done")
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// TestOrder runs random tasks, and checks that each ran after all that it depends on.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		s := New(nil)
		d := s.NewDomain(context.Background())
		n := 1 + random.IntN(60)
		var mu sync.Mutex
		place := make([]int, n)
		runs := 0
		tasks, deps := make([]*Task, n), make([][]int, n)
		for i := range n {
			var after []*Task
			for k := range i {
				if random.IntN(8) == 0 {
					after, deps[i] = append(after, tasks[k]), append(deps[i], k)
				}
			}
			class := []Class{Memory, Kernel, Outside}[random.IntN(3)]
			tasks[i] = &Task{Class: class, Domain: d, Quick: random.IntN(2) == 0, Run: func() {
				mu.Lock()
				defer mu.Unlock()
				runs++
				place[i] = runs
			}}
			s.Submit(tasks[i], after)
		}
		end := &Task{}
		s.Submit(end, tasks)
		wait(t, s, end)
		for i := range n {
			for _, k := range deps[i] {
				if place[k] == 0 || place[k] > place[i] {
					t.Fatalf("task %d ran %dth, %d before it %dth", i, place[i], k, place[k])
				}
			}
		}
		if runs != n || slices.Contains(place, 0) ||
			s.Pending() != 0 || d.Query() != gpubackend.Success {
			t.Fatalf("%d of %d tasks ran, %d are left", runs, n, s.Pending())
		}
	}
}

func TestHostTaskWaitsForItsAnswer(t *testing.T) {
	s := New(nil)
	d := s.NewDomain(context.Background())
	called := make(chan struct{})
	call := &Task{Class: Host, Domain: d, Run: func() { close(called) }}
	s.Submit(call, nil)
	after := &Task{Domain: d}
	s.Submit(after, []*Task{call})
	<-called
	if s.IsDone(after) || d.Query() != gpubackend.NotReady {
		t.Error("done without an answer")
	}
	s.Release(call)
	s.Release(call)
	wait(t, s, after)
	if elapsed, done := s.Elapsed(call, after); !done || elapsed < 0 {
		t.Errorf("elapsed %v, %v", elapsed, done)
	}
}

func TestDomainsFailApart(t *testing.T) {
	s := New(nil)
	bad, good := s.NewDomain(context.Background()), s.NewDomain(context.Background())
	gate := &Task{Class: Host, Run: func() {}}
	s.Submit(gate, nil)
	ran := make(chan string, 2)
	one := &Task{Class: Memory, Domain: bad, Run: func() { ran <- "bad" }}
	two := &Task{Class: Memory, Domain: good, Run: func() { ran <- "good" }}
	s.Submit(one, []*Task{gate})
	s.Submit(two, []*Task{gate})
	bad.Fail(gpubackend.IllegalAddress)
	bad.Fail(gpubackend.LaunchFailed)
	s.Release(gate)
	wait(t, s, one)
	wait(t, s, two)
	if who := <-ran; who != "good" || len(ran) != 0 {
		t.Errorf("%s ran", who)
	}
	if bad.Failure() != gpubackend.IllegalAddress || bad.Alive().Err() == nil {
		t.Errorf("failed with %d", bad.Failure())
	}
	if good.Query() != gpubackend.Success || !s.GivenUp(one) {
		t.Error("failure of another domain")
	}
	bad.Restart(context.Background())
	if bad.Query() != gpubackend.Success || bad.Alive().Err() != nil {
		t.Error("not usable again")
	}
}

// TestDrain: a domain gives up what waits for the caller, and other domains don't.
func TestDrain(t *testing.T) {
	s := New(nil)
	d, other := s.NewDomain(context.Background()), s.NewDomain(context.Background())
	d.Drain()
	if d.Failure() != gpubackend.Success {
		t.Fatal("failed without work")
	}
	for _, of := range []*Domain{d, other} {
		s.Submit(&Task{Class: Host, Domain: of, Run: func() {}}, nil)
	}
	d.Drain()
	if d.Failure() != gpubackend.ContextIsDestroyed || s.Pending() != 1 {
		t.Errorf("failure %d, %d tasks left", d.Failure(), s.Pending())
	}
	if other.Query() != gpubackend.NotReady {
		t.Error("another domain was drained")
	}
	s.DropHosts(nil)
	if !s.Wait(30*time.Second) || s.Pending() != 0 {
		t.Error("tasks are left")
	}
}

func TestReturned(t *testing.T) {
	s := New(nil)
	r := s.NewReturned()
	gate := &Task{Class: Host, Run: func() {}}
	s.Submit(gate, nil)
	r.After(7, []*Task{gate})
	if n := r.Take(); len(n) != 0 {
		t.Errorf("took %v", n)
	}
	if r.Wait() {
		t.Error("something came while all waits for the caller")
	}
	s.Release(gate)
	if !r.Wait() {
		t.Error("nothing came")
	}
	if n := r.Take(); len(n) != 1 || n[0] != 7 || len(r.Take()) != 0 {
		t.Errorf("took %v", n)
	}
}

func TestAllowance(t *testing.T) {
	s := New(nil)
	a := s.NewAllowance(10)
	gate := &Task{Class: Host, Run: func() {}}
	s.Submit(gate, nil)
	if !a.Take(25) {
		t.Fatal("nothing is held, and yet it waits")
	}
	holds := &Task{Then: a.Return(25)}
	s.Submit(holds, []*Task{gate})
	if a.Take(1) || a.Held() != 25 {
		t.Errorf("%d are held", a.Held())
	}
	s.Release(gate)
	wait(t, s, holds)
	if !a.Take(4) || !a.Take(6) || a.Held() != 10 {
		t.Errorf("%d are held", a.Held())
	}
}

func TestWaitUsers(t *testing.T) {
	s := New(nil)
	started, goOn := make(chan struct{}), make(chan struct{})
	s.Submit(&Task{Class: Kernel, Run: func() { close(started); <-goOn }}, nil)
	<-started
	ended := make(chan struct{})
	go func() {
		s.WaitUsers()
		close(ended)
	}()
	select {
	case <-ended:
		t.Error("did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	<-ended
}

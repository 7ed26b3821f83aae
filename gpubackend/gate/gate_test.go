// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/internal/memfdtest"
)

func newPage(t testing.TB) *Page {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// readable says whether a descriptor can be read.
func readable(t testing.TB, fd int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	for err == unix.EINTR {
		n, err = unix.Poll(fds, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestStates(t *testing.T) {
	p := newPage(t)
	if s := p.State(); s != Unshared {
		t.Errorf("a new gate is %+v, want open and free", s)
	}
	for _, s := range []State{
		{}, {Open: true}, {Open: true, Attend: true, InFlight: 2 * time.Millisecond},
		{Attend: true, InFlight: 500 * time.Microsecond},
		{Attend: true, Soon: true, InFlight: 500 * time.Microsecond},
		{Open: true, Free: true, InFlight: maxFlight},
		{Open: true, Attend: true, Knock: true, InFlight: time.Microsecond},
	} {
		p.Set(s)
		if got := p.State(); got != s {
			t.Errorf("set %+v, got %+v", s, got)
		}
		if r := readable(t, p.Worker(3).FD()); r != (s.Open || s.Soon) {
			t.Errorf("%+v: the descriptor is readable: %v", s, r)
		}
	}
	p.Set(State{InFlight: time.Hour * 10000})
	if got := p.State(); got.InFlight != maxFlight || got.Open || got.Free {
		t.Errorf("too much in flight gives %+v", got)
	}
}

func TestFreeGateIsNotCounted(t *testing.T) {
	p := newPage(t)
	w := p.Worker(0)
	if !w.Enter() || w.InFlight() {
		t.Error("a free gate must let through and not count")
	}
	p.Set(State{Open: true})
	if w.Hold(); !w.InFlight() {
		t.Error("what was in flight before the gate was counted isn't")
	}
}

func TestEnterAndLeave(t *testing.T) {
	p := newPage(t)
	p.Set(State{Open: true, Attend: true})
	w, other := p.Worker(0), p.Worker(Entries-1)
	if !w.Enter() {
		t.Fatal("an open gate doesn't let through")
	}
	p.Set(State{Attend: true})
	if other.Enter() {
		t.Error("a closed gate lets through")
	}
	if _, inFlight := p.Demand(); !inFlight {
		t.Error("the first worker's work isn't seen")
	}
	if w.Enter() {
		t.Error("a closed gate lets more through")
	}
	if !w.InFlight() {
		t.Error("work in flight was forgotten at the closed gate")
	}
	p.Listen()
	w.Leave()
	if _, inFlight := p.Demand(); inFlight {
		t.Error("work that has ended is in flight")
	}
	if !readable(t, p.bell) {
		t.Error("nobody rang the bell")
	}
}

func TestBell(t *testing.T) {
	for _, test := range []struct {
		name  string
		state State
		do    func(*Worker)
		rings bool
	}{
		{"waiting at a closed gate", State{}, func(w *Worker) { w.Wait(true) }, true},
		{"waiting at an open one", State{Open: true}, func(w *Worker) { w.Wait(true) }, false},
		{"waiting at a free one", Unshared, func(w *Worker) { w.Wait(true) }, false},
		{"waiting no more, attended", State{Open: true, Attend: true},
			func(w *Worker) { w.Wait(true); w.Wait(false) }, true},
		{"waiting twice", State{}, func(w *Worker) { w.Wait(true); drain(w.bell); w.Wait(true) },
			false},
		{"ended, not attended", State{Open: true}, func(w *Worker) { w.Enter(); w.Leave() }, false},
		{"ended, attended", State{Open: true, Attend: true},
			func(w *Worker) { w.Enter(); w.Leave() }, true},
		{"began", State{Open: true, Attend: true}, func(w *Worker) { w.Enter() }, false},
		{"began, to knock", State{Open: true, Knock: true}, func(w *Worker) { w.Enter() }, true},
		{"began again, to knock", State{Open: true, Knock: true},
			func(w *Worker) { w.Enter(); drain(w.bell); w.Enter() }, false},
		{"rests", State{Open: true, Attend: true}, func(w *Worker) { w.Enter(); w.Rest() }, true},
		{"rests, not attended", State{Open: true}, func(w *Worker) { w.Enter(); w.Rest() }, false},
		{"rests again", State{Open: true, Attend: true},
			func(w *Worker) { w.Enter(); w.Rest(); drain(w.bell); w.Rest() }, false},
		{"nothing ended", State{Attend: true}, func(w *Worker) { w.Leave() }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPage(t)
			p.Set(test.state)
			test.do(p.Worker(7))
			if r := readable(t, p.bell); r != test.rings {
				t.Errorf("the bell rang: %v, want %v", r, test.rings)
			}
		})
	}
}

func TestRestEndsBoth(t *testing.T) {
	p := newPage(t)
	p.Set(State{Open: true})
	w := p.Worker(5)
	w.Wait(true)
	w.Enter()
	w.Rest()
	if waiting, inFlight := p.Demand(); waiting || inFlight {
		t.Errorf("a worker that rests waits: %v, has work in flight: %v", waiting, inFlight)
	}
}

func TestClear(t *testing.T) {
	p := newPage(t)
	p.Set(State{Open: true})
	w := p.Worker(5)
	w.Wait(true)
	w.Enter()
	p.Clear(5)
	if waiting, inFlight := p.Demand(); waiting || inFlight {
		t.Error("a worker that has ended has demands")
	}
	if !readable(t, p.bell) {
		t.Error("nobody rang the bell")
	}
}

// TestTurn: the number and the overruns get to the workers, and are in nobody's way.
func TestTurn(t *testing.T) {
	p := newPage(t)
	w := p.Worker(0)
	if w.Turn() != 0 || w.Overruns() != 0 {
		t.Errorf("a new page is of turn %d, with %d overruns", w.Turn(), w.Overruns())
	}
	p.Beat(time.Second)
	p.SetTurn(Turn{Number: 1<<64 - 1, Overruns: 1<<64 - 2})
	waiting, inFlight := p.Demand()
	if w.Turn() != 1<<64-1 || w.Overruns() != 1<<64-2 || p.State() != Unshared ||
		p.Beaten() != time.Second || waiting || inFlight {
		t.Errorf("turn %d, %d overruns, state %+v, beaten at %v, waiting %v, in flight %v",
			w.Turn(), w.Overruns(), p.State(), p.Beaten(), waiting, inFlight)
	}
}

func TestBeat(t *testing.T) {
	p := newPage(t)
	p.Beat(time.Second)
	if b := p.Beaten(); b != time.Second {
		t.Errorf("beaten at %v", b)
	}
}

// TestNothingSlipsThrough closes the gate again and again: who closed it must see every work that
// came through.
func TestNothingSlipsThrough(t *testing.T) {
	p := newPage(t)
	p.Set(State{Open: true}) // a new gate is free, and what comes through that isn't counted
	var inside, stop atomic.Int32
	var workers sync.WaitGroup
	for entry := range 2 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			w := p.Worker(entry)
			for stop.Load() == 0 {
				if w.Enter() {
					inside.Add(1)
					inside.Add(-1)
				}
				w.Leave()
			}
		}()
	}
	for range 2000 {
		p.Set(State{Open: true})
		p.Set(State{})
		for _, inFlight := p.Demand(); inFlight; _, inFlight = p.Demand() {
		}
		if n := inside.Load(); n != 0 {
			t.Errorf("%d workers are inside a closed gate", n)
			break
		}
	}
	stop.Store(1)
	workers.Wait()
}

func TestHostilePages(t *testing.T) {
	events := func() (int, int) {
		bell, err := unix.Eventfd(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := unix.Eventfd(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return bell, opened
	}
	for name, fd := range memfdtest.Hostile(t, pageBytes,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW) {
		bell, opened := events()
		if _, err := Open(fd, bell, opened); !errors.Is(err, ErrPage) {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := unix.FcntlInt(uintptr(bell), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s: a descriptor is left open", name)
		}
	}
}

func BenchmarkFree(b *testing.B) {
	w := newPage(b).Worker(0)
	for b.Loop() {
		if !w.Enter() {
			b.Fatal("closed")
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// soon is a time in which something happens that is due.
const soon = time.Minute

// fakeSuspension moves nothing, and fails as often as it is told to.
type fakeSuspension struct {
	mu    sync.Mutex
	state suspend.State
	fails int
	err   error
	moves int
	pause func() // is called at the beginning of each move; may be nil
}

func (f *fakeSuspension) move(to suspend.State) (m suspend.Moved, err error) {
	if f.pause != nil {
		f.pause()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moves++
	if f.fails > 0 {
		f.fails--
		return m, f.err
	}
	f.state = to
	return m, nil
}

func (f *fakeSuspension) Suspend(func(suspend.Progress)) (suspend.Moved, error) {
	return f.move(suspend.Suspended)
}

func (f *fakeSuspension) Resume(func(suspend.Progress)) (suspend.Moved, error) {
	return f.move(suspend.Running)
}

func (f *fakeSuspension) Status() (s suspend.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.State = f.state
	return s
}

// fakeWorker counts how often it was told to try again.
type fakeWorker struct {
	mu    sync.Mutex
	ended bool
	told  []string
}

func (w *fakeWorker) Ended() bool { return w.ended }

func (w *fakeWorker) TryAgain(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, why)
}

// rig is a VM of fakes, which holds 5 bytes that may move and 2 that may not.
type rig struct {
	*VM
	t          *testing.T
	suspension fakeSuspension
	room       uint64
	tells      chan *link.Place
	order      link.Order
	lines      *logtest.Hook
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, tells: make(chan *link.Place, 1000)}
	r.suspension.state = suspend.Running
	log, lines := logtest.NewNullLogger()
	r.lines = lines
	r.VM = New(Config{
		Suspension: &r.suspension, Log: logrus.NewEntry(log),
		Holds: func() map[string]uint64 {
			return map[string]uint64{ledger.Names[ledger.Window]: 5, "context": 2}
		},
		Total:   func() uint64 { return 100 },
		SetRoom: func(bytes uint64) { r.room = bytes },
		Tell:    func(p *link.Place) { r.tells <- p },
		Guard:   func(_ string, f func()) bool { f(); return true },
	})
	return r
}

// until waits until the arbiter was told something.
func (r *rig) until(what string, is func(p *link.Place) bool) {
	r.t.Helper()
	end := time.After(soon)
	for {
		select {
		case p := <-r.tells:
			if is(p) {
				return
			}
		case <-end:
			r.t.Fatalf("%s: it is %+v", what, r.Place())
		}
	}
}

// move orders the VM out or in, and waits until that is over.
func (r *rig) move(out bool) {
	r.t.Helper()
	r.order.Serial++
	r.order.Out = out
	r.Ordered(&r.order)
	r.until("the order is over", func(p *link.Place) bool { return p.Serial == r.order.Serial })
}

func TestPlace(t *testing.T) {
	r := newRig(t)
	if p, want := *r.Place(), (link.Place{Have: 7, Stays: 2, Total: 100}); p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
}

// TestLacks: what workers lack is asked for once, until the arbiter answers or they end.
func TestLacks(t *testing.T) {
	r := newRig(t)
	r.order.Room = 7
	r.Ordered(&r.order)
	if r.room != 7 {
		t.Errorf("workers may have %d bytes, want 7", r.room)
	}
	a, b := &fakeWorker{}, &fakeWorker{}
	r.Lacks(a, 10)
	r.Lacks(b, 1<<63)
	r.until("both lack room", func(p *link.Place) bool { return p.Want == 7+10+mostLacking })
	b.ended = true
	if p := r.Place(); p.Want != 17 || !p.Work {
		t.Errorf("one has ended: %+v", p)
	}
	b.ended = false
	if p := r.Place(); p.Want != 17 {
		t.Errorf("what has ended is forgotten: %+v", p)
	}
	r.order.Denials++
	r.Ordered(&r.order)
	r.Lacks(a, 10)
	r.order.Grants++
	r.Ordered(&r.order)
	if len(a.told) != 2 || a.told[0] == "" || a.told[1] != "" || len(b.told) != 0 {
		t.Errorf("told %q and %q", a.told, b.told)
	}
	if p := r.Place(); p.Want != 0 {
		t.Errorf("all were answered: %+v", p)
	}
	r.Lacks(b, 10)
	r.Ordered(&link.Order{})
	if len(b.told) != 0 {
		t.Errorf("told %q of what another arbiter hasn't said", b.told)
	}
}

// TestOrders: the VM is moved as ordered, each order once, and its owner can't come in between.
func TestOrders(t *testing.T) {
	r := newRig(t)
	for _, out := range []bool{true, true, false, false, true} {
		r.move(out)
		if p := r.Place(); p.Out != out || p.Stopped {
			t.Fatalf("out %t: %+v", out, p)
		}
		if err := r.MayChange(); (err != nil) != out {
			t.Fatalf("out %t: its owner may change it: %v", out, err)
		}
	}
	if r.suspension.moves != 3 {
		t.Errorf("%d moves, want 3", r.suspension.moves)
	}
	r.Work()
	r.until("it has work", func(p *link.Place) bool { return p.Work })
}

// TestRefused: an order that can't be obeyed is over all the same, and the log says why.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		state   suspend.State
		stopped bool
	}{
		{"busy", errors.New("busy"), suspend.Running, false},
		{"its owner has suspended it", suspend.ErrState, suspend.Suspended, true},
	} {
		r := newRig(t)
		r.suspension.fails, r.suspension.err, r.suspension.state = 1, c.err, c.state
		r.move(true)
		if p := r.Place(); p.Out || p.Stopped != c.stopped {
			t.Errorf("%s: %+v", c.name, p)
		}
		l := r.lines.LastEntry()
		if l == nil || l.Level != logrus.WarnLevel || l.Data["error"] != c.err {
			t.Errorf("%s: the log says %+v", c.name, l)
		}
	}
}

// TestAlone: without an arbiter nothing is bounded, and the VM comes back, though not at once.
func TestAlone(t *testing.T) {
	r := newRig(t)
	r.order.Room = 7
	r.move(true)
	w := &fakeWorker{}
	r.Lacks(w, 10)
	r.Alone(true)
	if r.room != 0 || len(w.told) != 1 || w.told[0] != "" {
		t.Errorf("room %d, told %q", r.room, w.told)
	}
	for end := time.Now().Add(soon); r.Place().Out; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it doesn't come back")
		}
	}
	r.until("an arbiter is told", func(p *link.Place) bool { return !p.Out })
	r.order.Serial++
	r.Ordered(&r.order) // of an arbiter that hasn't beaten yet
	if p := r.Place(); p.Out {
		t.Errorf("it obeys one that isn't there: %+v", p)
	}
	r.Alone(false)
	if r.room != 7 {
		t.Errorf("workers may have %d bytes, want 7", r.room)
	}
	r.until("it is out", func(p *link.Place) bool { return p.Out })
}

// TestOrderedWhileComingBack: an order that comes while the VM comes back by itself is obeyed when
// it is back. What is told is true.
func TestOrderedWhileComingBack(t *testing.T) {
	r := newRig(t)
	r.move(true)
	begun, goOn := make(chan bool, 2), make(chan bool)
	r.suspension.pause = func() {
		begun <- true
		<-goOn
	}
	r.Alone(true)
	<-begun
	r.Alone(false)
	r.order.Serial++
	r.Ordered(&r.order)
	goOn <- true
	<-begun
	if p := r.Place(); p.Out || p.Serial == r.order.Serial {
		t.Errorf("it is back: %+v", p)
	}
	close(goOn)
	r.until("it is out by order", func(p *link.Place) bool {
		return p.Out && p.Serial == r.order.Serial
	})
}

// TestOutliveTheProcess: a VM that another process has moved out by order is out, and comes back by
// another order, or when the arbiter is away; what may be ordered is noted before it is done.
func TestOutliveTheProcess(t *testing.T) {
	for _, alone := range []bool{false, true} {
		r := newRig(t)
		var mu sync.Mutex
		var noted []bool
		c := r.config
		c.Out, c.Note = true, func(ordered bool) {
			mu.Lock()
			defer mu.Unlock()
			if noted = append(noted, ordered); len(noted) == 2 &&
				r.suspension.Status().State != suspend.Running {
				t.Error("it is noted too late")
			}
		}
		r.suspension.state = suspend.Suspended
		r.VM = New(c)
		if p := r.Place(); !p.Out || p.Stopped {
			t.Errorf("it is told of as %+v", p)
		}
		if err := r.MayChange(); err == nil {
			t.Error("its owner may resume it")
		}
		if alone {
			r.Alone(true)
		} else {
			r.Ordered(&link.Order{Serial: 1})
		}
		for end := time.Now().Add(soon); r.Place().Out; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it stays out")
			}
		}
		if alone {
			continue
		}
		r.Ordered(&link.Order{Serial: 2, Out: true})
		r.until("it is out", func(p *link.Place) bool { return p.Out })
		mu.Lock()
		if want := []bool{false, true, true}; !slices.Equal(noted, want) {
			t.Errorf("noted %v, want %v", noted, want)
		}
		mu.Unlock()
	}
}

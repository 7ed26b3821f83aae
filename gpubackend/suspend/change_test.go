// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// fake is a worker with device memory.
type fake struct {
	name  string
	bytes uint64
	fails map[string]error // by what it is asked
	keeps bool
	lies  bool // about what it keeps
	moves func()

	mu    sync.Mutex
	asked []string
	ended bool
}

func (f *fake) ask(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	return f.fails[what]
}

func (f *fake) Drain(_ uint64, _ time.Duration, whole bool) (uint64, error) {
	if whole {
		return f.bytes, f.ask("drain-whole")
	}
	return f.bytes, f.ask("drain")
}
func (f *fake) MoveOut(bytes uint64, keep bool) (Carried, error) {
	if f.moves != nil {
		f.moves()
	}
	c := Carried{Keeps: keep || f.lies}
	if f.keeps {
		c.Unchanged = bytes / 2
	}
	if f.lies {
		c.Unchanged = math.MaxUint64
	}
	f.keeps = keep
	return c, f.ask("out")
}
func (f *fake) Forget()               { f.keeps = false; _ = f.ask("forget") }
func (f *fake) MoveBack(uint64) error { return f.ask("back") }
func (f *fake) MoveIn(uint64) error   { return f.ask("in") }
func (f *fake) EndBusy()              { f.ended = true; _ = f.ask("kill") }
func (f *fake) Ended() bool           { return f.ended }
func (f *fake) String() string        { return f.name }

// did says what the worker was asked since the last time.
func (f *fake) did() string {
	s := strings.Join(f.asked, " ")
	f.asked = nil
	return s
}

// fakeVM is a VM of fake workers.
type fakeVM struct {
	*Suspension
	t       *testing.T
	workers []*fake
	room    uint64
	most    uint64
	went    int // how often all went on
	held    bool
}

func newVM(t *testing.T, workers ...*fake) *fakeVM {
	v := &fakeVM{t: t, workers: workers, room: 1 << 30}
	log := logrus.New()
	log.SetOutput(io.Discard)
	v.Suspension = New(Config{
		Hold: func() (list []Worker) {
			v.held = v.Held()
			for _, w := range v.workers {
				list = append(list, w)
			}
			return list
		},
		GoOn:  func() { v.held = v.Held(); v.went++ },
		Terms: func() (time.Duration, uint64) { return time.Second, v.most },
		Room: func() (uint64, error) {
			if v.room == 0 {
				return 0, errors.New("can't say")
			}
			return v.room, nil
		},
		Stays: func() uint64 { return 7 },
		Guard: func(_ string, f func()) (done bool) {
			defer func() {
				if recover() != nil {
					done = false
				}
			}()
			f()
			return true
		},
		Log: logrus.NewEntry(log),
	})
	return v
}

func silent(Progress) {}

// must says whether a change ended with an error that has a text ("": none) in a state.
func (v *fakeVM) must(change func(func(Progress)) (Moved, error), text string, then State) Moved {
	v.t.Helper()
	m, err := change(silent)
	switch {
	case err == nil && text != "", err != nil && text == "",
		err != nil && !strings.Contains(err.Error(), text):
		v.t.Fatalf("%v, want %q", err, text)
	case v.State() != then:
		v.t.Fatalf("the VM is %s, want %s", v.State(), then)
	case v.Held() != (then == Suspended) || v.held != v.Held():
		v.t.Fatalf("held is %t, was %t when workers were told, and the VM is %s",
			v.Held(), v.held, then)
	}
	return m
}

func (v *fakeVM) did() (all []string) {
	for _, w := range v.workers {
		all = append(all, w.did())
	}
	return all
}

func TestSuspendAndResume(t *testing.T) {
	v := newVM(t, &fake{name: "a", bytes: 5}, &fake{name: "b"}, &fake{name: "c", bytes: 3})
	for range 3 {
		m := v.must(v.Suspend, "", Suspended)
		if m.Bytes != 8 || m.Stays != 7 || v.Status() != (Status{State: Suspended, Image: 8}) {
			t.Fatalf("%+v, %+v", m, v.Status())
		}
		if got := v.did(); !slices.Equal(got, []string{"drain out", "drain", "drain out"}) {
			t.Fatalf("suspended by %q", got)
		}
		v.must(v.Suspend, "the VM is suspended", Suspended)
		if m := v.must(v.Resume, "", Running); m.Bytes != 8 || v.Status().Image != 0 {
			t.Fatalf("%+v, %+v", m, v.Status())
		}
		if got := v.did(); !slices.Equal(got, []string{"in", "", "in"}) {
			t.Fatalf("resumed by %q", got)
		}
		v.must(v.Resume, "the VM is running", Running)
	}
	if v.went != 3 {
		t.Errorf("the workers went on %d times", v.went)
	}
}

// TestKilling: workers whose work goes on are killed, if that is wanted and the change succeeds,
// and not before it does. Their programs are told.
func TestKilling(t *testing.T) {
	busy := map[string]error{"drain": fmt.Errorf("a: %w", ErrBusy),
		"drain-whole": fmt.Errorf("a: %w", ErrBusy)}
	v := newVM(t, &fake{name: "a", bytes: 5, fails: busy}, &fake{name: "b", bytes: 3})
	a, b := v.workers[0], v.workers[1]
	saves := func(kill bool, err error) func(func(Progress)) (Moved, error) {
		return func(tell func(Progress)) (Moved, error) {
			return v.Save(kill, func(func(uint64)) (uint64, error) {
				if !v.Doomed(a) || v.Doomed(b) || a.ended {
					t.Errorf("a is doomed: %t, and has ended: %t", v.Doomed(a), a.ended)
				}
				return 0, err
			}, tell)
		}
	}
	no := errors.New("no")
	v.must(v.Suspend, "its work goes on", Running)
	v.must(saves(false, nil), "its work goes on", Running)
	v.must(saves(true, no), "no", Running)
	v.room = 2
	v.must(v.SuspendKilling, "the host has 2 for it", Running)
	v.room = 1 << 30
	b.fails = map[string]error{"drain": no, "drain-whole": no}
	v.must(v.SuspendKilling, "b: no", Running)
	v.must(saves(true, nil), "b: no", Running)
	b.fails = map[string]error{"out": no}
	v.must(v.SuspendKilling, "b: no", Running)
	if b.fails = nil; a.ended || v.Doomed(a) {
		t.Fatal("a worker was killed, and the VM isn't suspended")
	}
	for _, change := range []func(func(Progress)) (Moved, error){v.SuspendKilling,
		saves(true, nil)} {
		a.ended = false
		m := v.must(change, "", Suspended)
		if !a.ended || !slices.Equal(m.Killed, []string{"a"}) || m.Bytes != 3 {
			t.Fatalf("a has ended: %t, %+v", a.ended, m)
		}
		if v.saved.Load() {
			break
		}
		v.must(v.Resume, "", Running)
	}
}

// TestFailures: what fails is undone, and a worker that is gone is none.
func TestFailures(t *testing.T) {
	no := errors.New("no")
	for _, test := range []struct {
		name   string
		change func(v *fakeVM)
		text   string
		did    []string // in any order of the workers
	}{
		{"busy", func(v *fakeVM) { v.workers[0].fails = map[string]error{"drain": no} },
			"busy: device memory isn't moved: a: no: stop-grace=1s", []string{"drain", "drain"}},
		{"bounded", func(v *fakeVM) { v.most = 7 }, "suspend-memory=7 allows less",
			[]string{"drain", "drain"}},
		{"full", func(v *fakeVM) { v.room = 7 }, "the host has 7 for it",
			[]string{"drain", "drain"}},
		{"unknown", func(v *fakeVM) { v.room = 0 }, "can't say", []string{"drain", "drain"}},
		{"a sum that wraps", func(v *fakeVM) { v.workers[0].bytes = math.MaxUint64 },
			fmt.Sprint(uint64(math.MaxUint64), " bytes"), []string{"drain", "drain"}},
		{"panic", func(v *fakeVM) { v.Stays = func() uint64 { panic("oh") } }, "a fault", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := newVM(t, &fake{name: "a", bytes: 5}, &fake{name: "b", bytes: 3})
			test.change(v)
			if test.did == nil {
				if _, err := v.Suspend(silent); !errors.Is(err, errFault) {
					t.Fatal(err)
				}
				return
			}
			v.must(v.Suspend, test.text, Running)
			if got := v.did(); !slices.Equal(got, test.did) || v.went != 1 {
				t.Errorf("%q, and went on %d times", got, v.went)
			}
		})
	}
}

// TestMoveFails: what is out comes in again, and if it can't, the VM is suspended.
func TestMoveFails(t *testing.T) {
	for _, stranded := range []bool{false, true} {
		a, b := &fake{name: "a", bytes: 5}, &fake{name: "b", bytes: 3}
		v := newVM(t, a, b)
		b.fails = map[string]error{"out": errors.New("no")}
		text, then := "device memory isn't moved: b: no", Running
		if stranded {
			a.fails = map[string]error{"in": errors.New("full")}
		}
		m, err := v.Suspend(silent)
		if err == nil || !strings.Contains(err.Error(), text) || m.Bytes+m.Stays > 0 ||
			m.Took > 0 || m.Killed != nil {
			t.Fatalf("%+v, %v", m, err)
		}
		// Workers are asked in no order: only if a was first is there something to bring back.
		first := strings.Contains(a.did(), "out")
		if stranded && first {
			then = Suspended
		}
		if v.State() != then || v.Held() != (then == Suspended) ||
			(v.Status().Image != 0) != (then == Suspended) {
			t.Fatalf("%+v, held %t, want %s", v.Status(), v.Held(), then)
		}
		a.fails, b.fails = nil, nil
		if then == Suspended {
			v.must(v.Resume, "", Running)
		}
		v.must(v.Suspend, "", Suspended)
	}
}

// TestResumeFails: what came in goes out again, and nothing is lost.
func TestResumeFails(t *testing.T) {
	a, b := &fake{name: "a", bytes: 5}, &fake{name: "b", bytes: 3}
	v := newVM(t, a, b)
	v.must(v.Suspend, "", Suspended)
	v.did()
	b.fails = map[string]error{"in": errors.New("full")}
	v.must(v.Resume, "b: full: nothing is lost", Suspended)
	if did := a.did(); did != "" && did != "in back" || v.Status().Image != 8 {
		t.Fatalf("a was asked %q; %+v", did, v.Status())
	}
	b.fails = nil
	v.must(v.Resume, "", Running)
}

// TestEnded workers are no failures, and have no memory out.
func TestEnded(t *testing.T) {
	for _, what := range []string{"drain", "out", "in"} {
		a, b := &fake{name: "a", bytes: 5}, &fake{name: "b", bytes: 3}
		a.fails = map[string]error{what: ErrEnded}
		v := newVM(t, a, b)
		v.must(v.Suspend, "", Suspended)
		want := uint64(3)
		if what == "in" {
			want = 8
		}
		if v.Status().Image != want {
			t.Errorf("%s: %d bytes out, want %d", what, v.Status().Image, want)
		}
		v.must(v.Resume, "", Running)
	}
	a := &fake{name: "a", bytes: 5, ended: true} // after it moved, before that was noted
	v := newVM(t, a)
	v.must(v.Suspend, "", Suspended)
	if v.Status().Image != 0 {
		t.Errorf("%+v of a worker that is gone", v.Status())
	}
	b := &fake{name: "b", bytes: 3}
	v.workers = []*fake{b}
	v.must(v.Resume, "", Running)
	v.must(v.Suspend, "", Suspended)
	v.Forget(b)
	if m := v.must(v.Resume, "", Running); m.Bytes != 0 || b.did() != "drain out" {
		t.Errorf("%+v moved in for one that has ended", m)
	}
}

// TestProgress is told while a change goes on, and no other change begins.
func TestProgress(t *testing.T) {
	v := newVM(t)
	wait, entered := make(chan struct{}), make(chan struct{})
	v.Stays = func() uint64 { close(entered); <-wait; return 0 }
	told := make(chan Progress, 100)
	done := make(chan error)
	go func() {
		_, err := v.Suspend(func(p Progress) { told <- p })
		done <- err
	}()
	<-entered
	if _, err := v.Resume(silent); !errors.Is(err, ErrState) {
		t.Errorf("resumed meanwhile: %v", err)
	}
	<-told
	close(wait)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-v.Idle()
}

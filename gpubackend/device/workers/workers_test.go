// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

const (
	soon   = time.Minute
	little = 50 * time.Millisecond
)

// rig starts workers that are fakes, and notes what happens to them.
type rig struct {
	*Workers
	t        *testing.T
	script   func(*childtest.Child)
	children []*childtest.Child
	fails    error // of what starts a process
	running  await.Crowd

	mu     sync.Mutex
	events []string
	log    bytes.Buffer
}

func (r *rig) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, what)
}

// noted is what happened since it was asked last.
func (r *rig) noted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.events
	r.events = nil
	return list
}

// Write is where the log goes.
func (r *rig) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

func (r *rig) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func newRig(t *testing.T, script func(*childtest.Child)) *rig {
	r := &rig{t: t, script: script}
	log := logrus.New()
	log.SetOutput(r)
	guard := func(_ string, f func()) bool { f(); return true }
	r.Workers = New(Config{
		Spawn: func(control *os.File) (child.Process, error) {
			if r.fails != nil {
				return nil, r.fails
			}
			c, err := childtest.Start(control, r.script)
			if err != nil {
				return nil, err
			}
			r.children = append(r.children, c)
			return c, nil
		},
		Limits: Limits{Answer: soon, Stop: soon, Exit: soon},
		Began:  func(*Worker) { r.note("began") },
		Said: func(_ *Worker, m *handover.Message, fds []int) {
			handover.CloseFiles(fds)
			r.note("said " + string(m.Kind))
		},
		Exited: func(*Worker) { r.note("exited") },
		Ended: func(w *Worker, err error) {
			if !w.State(func(*handover.State) {}) {
				t.Error("what it noted can't be read when it is taken back")
			}
			r.note("ended")
		},
		Guard: guard,
		Run:   func(_ string, f func()) { r.running.Go(f) },
		Log:   logrus.NewEntry(log),
	})
	t.Cleanup(func() {
		if !await.Within(soon, r.running.Gone()) {
			t.Error("something goes on")
		}
	})
	return r
}

// newHastyRig has Workers that soon lose patience with those that don't do what they are told.
func newHastyRig(t *testing.T, script func(*childtest.Child)) *rig {
	r := newRig(t, script)
	r.config.Limits = Limits{Answer: little, Stop: little, Exit: little}
	return r
}

// worker is one that serves a program.
func (r *rig) worker() *Worker {
	r.t.Helper()
	w, err := r.Start(handover.Policy{SoftWorkers: 3}, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Kill)
	w.Serve(1, Program{9, "prog"})
	w.Begun()
	return w
}

// mustEnd waits until a worker is gone.
func (r *rig) mustEnd(w *Worker) {
	r.t.Helper()
	if !await.Within(soon, w.Gone()) {
		r.t.Fatal("it isn't gone")
	}
}

// TestLife: who is told what, in what order, and what is left.
func TestLife(t *testing.T) {
	r := newRig(t, childtest.Polite)
	w := r.worker()
	if w.Policy.SoftWorkers != 3 || !w.Ahead || w.String() != "prog (pid 9)" {
		t.Errorf("%+v, %v", w.Policy, w)
	}
	w.State(func(s *handover.State) { s.Count(handover.Starts, 2) })
	if n := w.Counters()[handover.Starts]; n != 2 {
		t.Errorf("it has counted to %d", n)
	}
	if w.Ended() || w.Killed() || await.Closed(w.Gone()) {
		t.Error("it has ended")
	}
	if !w.Stop() {
		t.Fatal("it doesn't end")
	}
	if got, want := r.noted(), []string{"began", "exited", "ended"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if w.State(func(*handover.State) { t.Error("read") }) || w.Counters()[handover.Starts] != 0 ||
		!w.Ended() {
		t.Error("something is left of it")
	}
	if said := r.said(); said != "" {
		t.Errorf("the log says %q", said)
	}
}

// TestNoProcess: nothing is left of one that can't be started.
func TestNoProcess(t *testing.T) {
	r := newRig(t, childtest.Polite)
	r.fails = errors.New("no")
	if _, err := r.Start(handover.Policy{}, Cold); !errors.Is(err, r.fails) {
		t.Fatal(err)
	}
	if got := r.noted(); got != nil {
		t.Errorf("%q", got)
	}
}

// TestSilentWorkers are killed when they don't do what they are told in time.
func TestSilentWorkers(t *testing.T) {
	silent := func(c *childtest.Child) {
		for {
			if _, err := c.Receive(); err != nil {
				return
			}
		}
	}
	for _, test := range []struct {
		name string
		ask  func(*Worker)
		says string
	}{
		{"stop", func(w *Worker) { w.Stop() }, "worker did not stop"},
		{"tell all", func(w *Worker) {
			one(w).Memory(memory)
		}, "did not take the new memory"},
		{"log", func(w *Worker) {
			one(w).Log(func() (*handover.Message, []int) {
				return &handover.Message{Kind: handover.KindLog}, nil
			})
		}, "did not take the log"},
		{"move", func(w *Worker) {
			if _, err := w.MoveOut(1<<20, true); !errors.Is(err, suspend.ErrEnded) {
				t.Errorf("%v of a worker that is killed", err)
			}
		}, "doesn't move device memory"},
		{"far too much", (*Worker).TooMuch, "far more memory"},
	} {
		r := newHastyRig(t, silent)
		w := r.worker()
		test.ask(w)
		r.mustEnd(w)
		if !w.Killed() || !strings.Contains(r.said(), test.says) {
			t.Errorf("%s: killed: %t, the log says %q", test.name, w.Killed(), r.said())
		}
	}
}

// TestPause: one that stands in time stands, and any other doesn't.
func TestPause(t *testing.T) {
	never := make(chan struct{})
	still := make(chan struct{})
	close(still)
	idle := func() <-chan struct{} { return still }
	r := newRig(t, childtest.Polite)
	w := r.worker()
	if !w.Pause(idle, soon) {
		t.Fatalf("it doesn't pause: %s", r.said())
	}
	w.Kill()
	if w.Pause(idle, soon) {
		t.Error("one that was killed pauses")
	}
	r.mustEnd(w)

	// memory is moved until the worker is gone
	w = r.worker()
	r.children[1].Kill()
	if w.Pause(func() <-chan struct{} { return never }, soon) {
		t.Error("one that is gone pauses")
	}

	slow := newHastyRig(t, func(c *childtest.Child) { <-c.Killed })
	w = slow.worker()
	if w.Pause(idle, little) {
		t.Error("one whose work goes on pauses")
	}
	slow.mustEnd(w)
	if !w.Killed() || !strings.Contains(slow.said(), "stop-grace=50ms") {
		t.Errorf("killed: %t, the log says %q", w.Killed(), slow.said())
	}

	// one whose program ends is waited for, and not asked
	w = slow.worker()
	w.Retire()
	if w.Pause(idle, soon) {
		t.Error("one that doesn't end has ended")
	}
	w.End()
}

// TestStuckWorker: one that doesn't end when it is killed is waited for once, and the log says so,
// and when it has ended.
func TestStuckWorker(t *testing.T) {
	end := make(chan struct{})
	r := newHastyRig(t, func(*childtest.Child) { <-end })
	w := r.worker()
	w.End()
	if !w.Stuck() || !w.Retired() || w.AwaitEnd() {
		t.Fatal("it has ended")
	}
	close(end)
	r.mustEnd(w)
	if !w.AwaitEnd() {
		t.Error("it hasn't ended")
	}
	for _, text := range []string{"does not end", "has ended"} {
		if strings.Count(r.said(), text) != 1 {
			t.Errorf("the log says %q", r.said())
		}
	}
}

// TestDrain: what a worker has to move, and that one which dies meanwhile has nothing.
func TestDrain(t *testing.T) {
	r := newRig(t, func(c *childtest.Child) {
		for {
			m, fds, err := c.Conn.Receive()
			handover.CloseFiles(fds)
			switch {
			case err != nil:
				return
			case m.Kind == handover.KindDrain && m.Whole:
				_ = c.Conn.Send(&handover.Message{Kind: handover.KindDrained, Turn: m.Turn,
					Error: "no"}, nil)
			case m.Kind == handover.KindDrain:
				_ = c.Conn.Send(&handover.Message{Kind: handover.KindDrained, Turn: m.Turn,
					Bytes: 7}, nil)
			case m.Kind == handover.KindMoveIn:
				return
			}
		}
	})
	w := r.worker()
	if n, err := w.Drain(1, 0, false); n != 7 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if _, err := w.Drain(2, 0, true); !errors.Is(err, child.ErrRefused) {
		t.Fatal(err)
	}
	if err := w.MoveIn(1); !errors.Is(err, suspend.ErrEnded) {
		t.Fatal(err)
	}
	r.mustEnd(w)
	if _, err := w.Drain(3, 0, false); !errors.Is(err, suspend.ErrEnded) {
		t.Fatal(err)
	}
}

// TestOneThatIsSilentAndLives: it doesn't pass for one that has ended, whether it closes its end of
// the connection or says what is no message.
func TestOneThatIsSilentAndLives(t *testing.T) {
	for name, silent := range map[string]func(*childtest.Child){
		"closes its end": func(c *childtest.Child) { _ = c.Conn.Close() },
		"says what is no message": func(c *childtest.Child) {
			_ = c.Conn.Send(&handover.Message{Kind: "rooms"}, nil)
		},
	} {
		r := newRig(t, func(c *childtest.Child) {
			if _, err := c.Receive(); err == nil {
				silent(c)
			}
			<-c.Killed
		})
		w := r.worker()
		if err := w.MoveIn(1); !errors.Is(err, suspend.ErrEnded) || !w.Ended() {
			t.Errorf("%s: %v, ended %t", name, err, w.Ended())
		}
		r.mustEnd(w)
	}
}

// TestItIsHeardAtOnce: what a worker says as soon as it runs can be answered.
func TestItIsHeardAtOnce(t *testing.T) {
	heard := make(chan struct{})
	r := newRig(t, func(c *childtest.Child) {
		_ = c.Conn.Send(&handover.Message{Kind: handover.KindRoom, Bytes: 1}, nil)
		if kind, err := c.Receive(); kind == handover.KindRoom && err == nil {
			close(heard)
		}
		<-c.Killed
	})
	r.config.Said = func(w *Worker, _ *handover.Message, fds []int) {
		handover.CloseFiles(fds)
		w.TryAgain("there is room")
	}
	w := r.worker()
	if !await.Within(soon, heard) {
		t.Fatal("it isn't answered")
	}
	w.End()
	w.TryAgain("it is gone") // which is no fault
}

// memory describes no memory.
func memory(bool) (*handover.Message, []int) {
	return &handover.Message{Kind: handover.KindMemory}, nil
}

// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

const soon = time.Minute

// rig is a VM whose processes are fakes.
type rig struct {
	*Reach
	t       *testing.T
	moves   *movers.Movers
	workers *workers.Workers
	came    chan struct{}         // closed when there is the guest's memory
	needed  func()                // is called when a mover is needed; nil: nothing is
	said    chan handover.Message // what a worker is told
	bad     atomic.Int32          // movers that refuse to start
	idle    atomic.Int64
	slow    atomic.Int64 // how long the start of a mover takes
	copied  atomic.Uint64
	copying atomic.Bool // between any two looks
	keeps   atomic.Bool // workers don't give up their connections
	hangs   atomic.Bool // movers don't end before the next line is closed
	end     chan struct{}
	running await.Crowd
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, said: make(chan handover.Message, 1000), came: make(chan struct{}),
		end: make(chan struct{})}
	close(r.came)
	text := logrus.New()
	text.SetOutput(io.Discard)
	log := logrus.NewEntry(text)
	guard := func(_ string, f func()) bool { f(); return true }
	run := func(_ string, f func()) { r.running.Go(f) }
	r.moves = movers.New(movers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			return childtest.Start(control, r.mover)
		},
		Go: run, Unmarked: func() {}, Ended: func() {}, Log: log,
		Ending: func(m *movers.Mover) { r.Ending(m) },
		Serves: func(child.Process, *child.Conn) {}, Over: func(child.Process) {},
		Start: soon, Answer: soon, Stop: soon, Exit: 100 * time.Millisecond,
	})
	r.moves.EndLeft(nil)
	r.workers = workers.New(workers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			return childtest.Start(control, r.worker)
		},
		Limits: workers.Limits{Answer: soon, Stop: soon, Exit: soon},
		Began:  func(*workers.Worker) {},
		Said: func(w *workers.Worker, m *handover.Message, fds []int) {
			handover.CloseFiles(fds)
			r.Released(w)
		},
		Exited: func(*workers.Worker) {},
		Ended:  func(w *workers.Worker, _ error) { r.Forget(w) },
		Guard:  guard, Run: run, Log: log,
	})
	r.Reach = New(Config{
		Movers: r.moves, Here: func() bool { return await.Closed(r.came) }, Came: r.came,
		Need: func(kills uint64) (*movers.Mover, error) {
			time.Sleep(time.Duration(r.slow.Load()))
			if r.needed != nil {
				r.needed()
			}
			return r.moves.Need(func() (*handover.Message, []int) {
				return &handover.Message{Kind: handover.KindStart}, nil
			}, kills)
		},
		IdleTime: func() time.Duration { return time.Duration(r.idle.Load()) },
		Unmet:    func() bool { return false },
		Vouchers: func() uint64 { return 0 },
		Copied: func() uint64 {
			if r.copying.Load() {
				r.copied.Add(1)
			}
			return r.copied.Load()
		},
		Guard: guard, Run: run, Log: log,
	})
	t.Cleanup(func() {
		r.moves.Kill()
		if !await.Within(soon, r.running.Gone()) {
			t.Error("something goes on")
		}
	})
	return r
}

// mover starts, unless it is a bad one.
func (r *rig) mover(c *childtest.Child) {
	if r.bad.Add(-1) < 0 {
		hangs := r.hangs.Load()
		if childtest.Polite(c); hangs {
			<-r.end
		}
		return
	}
	_, _ = c.Receive()
	_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady, Error: "no"}, nil)
	<-c.Killed
}

// worker notes what it is told, and gives up its connection when it is to.
func (r *rig) worker(c *childtest.Child) {
	for {
		m, fds, err := c.Conn.Receive()
		handover.CloseFiles(fds)
		if err != nil {
			return
		}
		if m.Kind == handover.KindRelease && !r.keeps.Load() {
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindRelease}, nil)
		}
		if m.Kind == handover.KindMover {
			r.said <- *m
		}
	}
}

// serving is a worker that serves a program.
func (r *rig) serving() *workers.Worker {
	r.t.Helper()
	w, err := r.workers.Start(handover.Policy{}, workers.Cold)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Kill)
	w.Serve(0, workers.Program{PID: 9})
	return w
}

// copies says whether a worker that asks for the mover gets it.
func (r *rig) copies(w *workers.Worker) bool {
	r.t.Helper()
	r.Wanted(w)
	m := <-r.said
	if m.Files.Conn != (m.Error == "") {
		r.t.Errorf("the answer is %+v", m)
	}
	return m.Files.Conn
}

// TestTheFirstCopyBegins the mover, and others have the same.
func TestTheFirstCopyBegins(t *testing.T) {
	r := newRig(t)
	a, b := r.serving(), r.serving()
	if r.moves.Current() != nil {
		t.Fatal("there is a mover before the first copy")
	}
	if !r.copies(a) || !r.copies(b) {
		t.Fatal("they don't get the mover")
	}
	m := r.moves.Current()
	for _, w := range []*workers.Worker{a, b} {
		if has, _ := r.Of(w); has != m {
			t.Error("a VM had two movers")
		}
	}
	a.Kill()
	<-a.Gone()
	if _, known := r.Of(a); known {
		t.Error("a worker that has ended is known")
	}
}

// TestMemoryComes: a worker that was taken over may ask before the front end has sent the guest's
// memory. It gets the mover when that comes; and if it ends before, nobody waits for its sake.
func TestMemoryComes(t *testing.T) {
	r := newRig(t)
	r.came = make(chan struct{})
	r.config.Came = r.came
	w, gone := r.serving(), r.serving()
	r.Wanted(w)
	r.Wanted(gone)
	gone.Kill()
	<-gone.Gone()
	if m, known := r.Of(w); m != nil || !known || r.moves.Current() != nil {
		t.Error("there is a mover without the guest's memory")
	}
	close(r.came)
	if m := <-r.said; !m.Files.Conn {
		t.Errorf("the answer is %+v", m)
	}
	if m, _ := r.Of(w); m == nil || m != r.moves.Current() {
		t.Error("it doesn't have the mover")
	}
}

// TestOneConnection is what a worker has, however often it asks, but another when it needs one.
func TestOneConnection(t *testing.T) {
	r := newRig(t)
	w := r.serving()
	if !r.copies(w) {
		t.Fatal("it doesn't get the mover")
	}
	for range 10 {
		if r.copies(w) {
			t.Fatal("it has two connections")
		}
	}
	m := r.moves.Current()
	m.Kill()
	<-m.Exited()
	for end := time.Now().Add(soon); r.moves.Current() == m; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the mover is still there")
		}
	}
	if !r.copies(w) {
		t.Fatal("it doesn't get the next mover")
	}
}

// TestNoMover: who asks is told so, and the next one has another.
func TestNoMover(t *testing.T) {
	r := newRig(t)
	w := r.serving()
	r.bad.Store(1)
	if r.copies(w) {
		t.Fatal("it is connected to a mover that can't start")
	}
	if !r.copies(w) {
		t.Fatal("it doesn't get the next mover")
	}
	idle, err := r.workers.Start(handover.Policy{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Kill()
	if r.copies(idle) {
		t.Fatal("a worker has the mover that serves nobody")
	}
}

// TestEndOfAll: a worker for which a mover is about to start is killed, as all are, and then the
// mover. None is left that nobody ends.
func TestEndOfAll(t *testing.T) {
	r := newRig(t)
	w := r.serving()
	r.needed = func() {
		r.needed = nil
		w.Kill()
		r.moves.Kill()
	}
	r.Wanted(w)
	if !await.Within(soon, r.running.Gone()) {
		t.Fatal("something goes on")
	}
	if m := r.moves.Current(); m != nil {
		t.Error("there is a mover")
	}
}

// TestNothingIsCopied for long: then the mover ends, but not before all have given it up.
func TestNothingIsCopied(t *testing.T) {
	r := newRig(t)
	r.keeps.Store(true)
	r.idle.Store(int64(10 * time.Millisecond))
	a, b := r.serving(), r.serving()
	if !r.copies(a) || !r.copies(b) {
		t.Fatal("they don't get the mover")
	}
	m := r.moves.Current()
	if await.Within(100*time.Millisecond, m.Exited()) {
		t.Fatal("the mover ended although workers have it")
	}
	r.Released(a)
	if await.Within(20*time.Millisecond, m.Exited()) {
		t.Fatal("the mover ended although a worker has it")
	}
	r.keeps.Store(false)
	if !await.Within(soon, m.Exited()) {
		t.Fatal("the mover doesn't end")
	}
	if !r.copies(a) {
		t.Fatal("the next copy has no mover")
	}
}

// TestSlowStart: a mover ends as well if its start takes longer than the idle time.
func TestSlowStart(t *testing.T) {
	r := newRig(t)
	r.idle.Store(int64(time.Millisecond))
	r.slow.Store(int64(100 * time.Millisecond))
	if !r.copies(r.serving()) {
		t.Fatal("it doesn't get the mover")
	}
	if m := r.moves.Current(); m != nil && !await.Within(soon, m.Exited()) {
		t.Fatal("the mover doesn't end")
	}
}

// TestAMoverThatHangs: who had it and has no copy on its way has the next one; who has keeps it.
func TestAMoverThatHangs(t *testing.T) {
	r := newRig(t)
	defer close(r.end)
	r.hangs.Store(true)
	a, b := r.serving(), r.serving()
	if !r.copies(a) || !r.copies(b) {
		t.Fatal("they don't get the mover")
	}
	m := r.moves.Current()
	r.hangs.Store(false)
	r.moves.End(m)
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if _, a := r.Of(a); !a {
			if _, b := r.Of(b); !b {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("a worker keeps the mover")
		}
	}
	if !r.copies(a) || !r.copies(b) || r.moves.Current() == m {
		t.Fatal("the next copies have no mover")
	}
	r.keeps.Store(true)
	other := r.moves.Current()
	r.Ending(other)
	if _, known := r.Of(a); !known {
		t.Error("a worker whose copies go on has lost the mover")
	}
}

// TestWhatIsCopied keeps the mover.
func TestWhatIsCopied(t *testing.T) {
	r := newRig(t)
	r.idle.Store(int64(10 * time.Millisecond))
	r.copying.Store(true)
	w := r.serving()
	if !r.copies(w) {
		t.Fatal("it doesn't get the mover")
	}
	m := r.moves.Current()
	if await.Within(200*time.Millisecond, m.Exited()) {
		t.Error("the mover of a VM that copies ended")
	}
	r.copying.Store(false)
	if !await.Within(soon, m.Exited()) {
		t.Error("the mover doesn't end")
	}
}

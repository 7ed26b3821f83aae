// SPDX-License-Identifier: Apache-2.0

package opening

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/ahead"
	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/channels"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const soon = time.Minute

// rig is the parts that an Opening joins, of a VM whose processes are none.
type rig struct {
	*Opening
	t       *testing.T
	moves   *movers.Movers
	driver  *virtqueuetest.Driver
	running await.Crowd

	mu     sync.Mutex
	script func(*childtest.Child) // of workers
	mover  func(*childtest.Child)
	given  []*handover.Message // what workers got with their channels
	fails  error               // of the mover
}

// notSaved is a VM of which nothing is in a file.
type notSaved struct{}

func (notSaved) Has(int) bool    { return false }
func (notSaved) Name(int) string { return "" }
func (notSaved) Forget(int)      {}

func newRig(t *testing.T, set ...string) *rig {
	t.Helper()
	r := &rig{t: t, mover: childtest.Polite}
	r.script = r.noting
	text := logrus.New()
	text.SetOutput(io.Discard)
	log := logrus.NewEntry(text)
	s := settings.Default()
	for _, text := range append([]string{"channels=2", "warm-workers=0"}, set...) {
		if err := s.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	guard := func(_ string, f func()) bool { f(); return true }
	c := Config{GPU: "soft", RAM: ram.New(log), Log: log, Start: soon,
		Answer: 50 * time.Millisecond, Starts: pace.New(0, Burst, pace.Real),
		Held:  func() bool { return false },
		Saved: func(int) bool { return false },
		Run: func(_ string, f func()) {
			r.running.Add(1)
			go func() {
				defer r.running.Done()
				f()
			}()
		}}
	guest := virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 1 << 20})
	guest.Alloc(4096, 4096)
	r.driver = virtqueuetest.NewDriver(guest, 8, false)
	c.RAM.Put(guest.Mem)
	c.Settings = settings.NewVM(s, settings.Config{GPU: "soft",
		Changed: func(_, _ *settings.Now) {}, Kept: func(string) {}})
	c.Accounts = accounts.New(accounts.Config{Log: log, Guard: guard,
		GPUTime: func() uint64 { return 0 }})
	r.moves = movers.New(movers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			if r.fails != nil {
				return nil, r.fails
			}
			return childtest.Start(control, r.mover)
		},
		Go: c.Run, Unmarked: func() {}, Ended: func() {}, Log: log,
		Start: soon, Answer: soon, Stop: soon, Exit: soon,
	})
	r.moves.EndLeft(nil)
	c.Movers, c.Mover = r.moves, func() (*movers.Mover, error) {
		return r.moves.Need(func() (*handover.Message, []int) {
			return &handover.Message{Kind: handover.KindStart}, nil
		})
	}
	still := make(chan struct{})
	close(still)
	c.Channels = channels.New(channels.Config{
		Channels: 2, RAM: c.RAM, Saved: notSaved{}, Lingering: r.moves.Lingering,
		Idle:  func() <-chan struct{} { return still },
		Grace: func() time.Duration { return soon },
		Cold:  func(channel int, p *workers.Program) { r.Cold(channel, p) },
		Park:  func(end <-chan struct{}) { <-end },
		Exit:  soon, Guard: guard, Log: log,
	})
	c.Channels.Expect(true)
	c.Workers = workers.New(workers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return childtest.Start(control, r.script)
		},
		Limits: workers.Limits{Answer: soon, Stop: soon, Exit: soon},
		Began:  func(w *workers.Worker) { c.Accounts.Began(w) },
		Said: func(_ *workers.Worker, _ *handover.Message, fds []int) {
			handover.CloseFiles(fds)
		},
		Exited: func(w *workers.Worker) { c.Accounts.Ended(w) },
		Ended: func(w *workers.Worker, err error) {
			c.Channels.Ended(w, err)
			if w.Channel() < 0 {
				c.Ahead.Lost(w, err)
			}
		},
		Guard: guard, Run: c.Run, Log: log,
	})
	c.Ahead = ahead.New(ahead.Config{
		GPU: "soft", Settings: c.Settings, Workers: c.Workers, Accounts: c.Accounts,
		Used: func() bool { return true }, Held: func() bool { return false },
		StopMover: func() func() { return nil }, Starts: c.Starts, Clock: pace.Real,
		Start: soon, Answer: soon, Guard: guard, Run: c.Run, Log: log,
	})
	r.Opening = New(c)
	t.Cleanup(r.end)
	return r
}

func (r *rig) end() {
	r.Ahead.DriverGone()
	r.Channels.KillAll()
	for i := range 2 {
		_, _ = r.Channels.Stop(i)
	}
	r.moves.Kill()
	if !await.Within(soon, r.running.Gone()) {
		r.t.Error("something goes on")
	}
}

// noting is a polite worker's script that notes what it gets.
func (r *rig) noting(c *childtest.Child) {
	for {
		m, fds, err := c.Conn.Receive()
		handover.CloseFiles(fds)
		if err != nil {
			return
		}
		if m.Kind == handover.KindStart {
			r.mu.Lock()
			r.given = append(r.given, m)
			r.mu.Unlock()
		}
		if a := childtest.Answers[m.Kind]; a != "" {
			_ = c.Conn.Send(&handover.Message{Kind: a}, nil)
		}
		if m.Kind == handover.KindStop {
			return
		}
	}
}

// gave is what workers got with their channels.
func (r *rig) gave() []*handover.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.given)
}

// play has workers that start from now on play another script.
func (r *rig) play(script func(*childtest.Child)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = script
}

// start starts a channel's queue. Both have the same ring, which no worker of these tests reads.
func (r *rig) start(channel int) {
	r.t.Helper()
	kick, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		r.t.Fatal(err)
	}
	c := vhostuser.QueueConfig{Size: r.driver.Size, Desc: r.driver.Desc, Avail: r.driver.Avail,
		Used: r.driver.Used, Kick: vhostuser.NewFD(kick)}
	defer c.Kick.Close()
	if err := r.Channels.Start(channel, c); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) mustOpen(channel int, want uint32) {
	r.t.Helper()
	if got := r.Open(channel, 9, "prog", control.Asking{}); got != want {
		r.t.Fatalf("status %d, want %d", got, want)
	}
}

// TestOpen: a worker gets all that it needs, and its channel is taken.
func TestOpen(t *testing.T) {
	r := newRig(t)
	r.start(0)
	r.mustOpen(0, wire.StatusOk)
	w := r.Channels.Worker(0)
	if w == nil || w.String() != "prog (pid 9)" || w.Ahead {
		t.Fatalf("%v has the channel", w)
	}
	m := r.gave()[0]
	if m.GPU != "soft" || m.PID != 9 || m.Comm != "prog" || m.Queue.Size != r.driver.Size ||
		len(m.Memory) != 1 || !m.Files.State || !m.Files.Conn || m.Saved || m.Held ||
		*m.Policy != r.Settings.Now().Policy {
		t.Errorf("it got %+v", m)
	}
	r.mustOpen(0, wire.StatusBusy)
	if len(r.gave()) != 1 {
		t.Error("another worker was started")
	}
	r.Channels.Close(0)
	r.mustOpen(0, wire.StatusOk)
}

// TestNotOpened: what a guest asks for in vain, and why.
func TestNotOpened(t *testing.T) {
	r := newRig(t, "processes=1")
	r.mustOpen(0, wire.StatusBadRequest) // its queue doesn't run
	r.start(0)
	r.start(1)
	gone := make(chan struct{})
	close(gone)
	if s := r.Open(0, 9, "", control.Asking{Dropped: gone}); s != wire.StatusBadRequest {
		t.Errorf("status %d of a driver that is gone", s)
	}
	r.Saved = func(channel int) bool { return channel == 0 }
	r.mustOpen(0, wire.StatusBusy)
	r.Saved = func(int) bool { return false }
	r.mustOpen(0, wire.StatusOk)
	r.mustOpen(1, wire.StatusBusy) // there is one process already
	if err := r.Settings.Set("processes=2"); err != nil {
		t.Fatal(err)
	}
	r.fails = errors.New("no")
	r.moves.Kill()
	<-r.moves.Current().Exited()
	for r.moves.Current() != nil {
		time.Sleep(time.Millisecond)
	}
	r.mustOpen(1, wire.StatusNoWorker) // there is no mover
}

// TestStartsThatWait end with the control queue.
func TestStartsThatWait(t *testing.T) {
	r := newRig(t)
	r.start(0)
	r.Starts.SetRate(1e-6)
	for range Burst {
		r.Starts.Take()
	}
	quit := make(chan struct{})
	answer := make(chan uint32)
	go func() { answer <- r.Open(0, 9, "", control.Asking{Quit: quit}) }()
	select {
	case s := <-answer:
		t.Fatalf("status %d before its turn", s)
	case <-time.After(20 * time.Millisecond):
	}
	close(quit)
	if s := <-answer; s != wire.StatusNoWorker {
		t.Fatalf("status %d", s)
	}
}

// TestBadWorkers: one that doesn't take its channel is ended, and the channel is free.
func TestBadWorkers(t *testing.T) {
	r := newRig(t)
	r.start(0)
	for name, script := range map[string]func(*childtest.Child){
		"dies": func(c *childtest.Child) { _, _ = c.Receive() },
		"refuses": func(c *childtest.Child) {
			_, _ = c.Receive()
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady, Error: "no"}, nil)
			<-c.Killed
		},
		"dies as it says that it serves": func(c *childtest.Child) {
			_, _ = c.Receive()
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindDone}, nil)
		},
	} {
		r.play(script)
		if s := r.Open(0, 9, "", control.Asking{}); s != wire.StatusNoWorker ||
			r.Channels.Worker(0) != nil {
			t.Errorf("one that %s: status %d", name, s)
		}
	}
	r.play(r.noting)
	r.mustOpen(0, wire.StatusOk)
}

// TestWarmWorkers serve, unless they can't: then a cold one does.
func TestWarmWorkers(t *testing.T) {
	r := newRig(t, "warm-workers=1")
	r.start(0)
	kept := func(n int) []*workers.Worker {
		t.Helper()
		for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
			if all, ready := r.Ahead.Kept(); ready == n {
				return all
			}
			if time.Now().After(end) {
				t.Fatal("no worker is warm")
			}
		}
	}
	r.Ahead.DriverCame()
	all := kept(1)
	r.mustOpen(0, wire.StatusOk)
	if w := r.Channels.Worker(0); w != all[0] {
		t.Fatal("another worker serves")
	}
	all = kept(1) // another one, in its place
	r.mustOpen(0, wire.StatusBusy)
	if again := kept(1); again[0] != all[0] {
		t.Fatal("a channel that is busy takes a warm worker")
	}
	r.Channels.Close(0)
	if err := r.Settings.Set("batch-commands=7"); err != nil { // of which nobody has told the pool
		t.Fatal(err)
	}
	r.mustOpen(0, wire.StatusOk)
	if w := r.Channels.Worker(0); w.Ahead || !await.Within(soon, all[0].Gone()) {
		t.Fatal("a worker serves that was started with another policy")
	}
	r.Channels.Close(0)
	r.play(func(c *childtest.Child) { // becomes warm, and takes no channel
		_, _ = c.Receive()
		_ = c.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
		_, _ = c.Receive()
	})
	r.Ahead.Empty()
	r.Ahead.Refill()
	kept(1)
	r.play(r.noting)
	r.mustOpen(0, wire.StatusOk)
	if w := r.Channels.Worker(0); w.Ahead {
		t.Fatal("a warm worker serves that took no channel")
	}
}

// TestCold: a warm worker that doesn't suit its program is followed by a cold one, and if that
// can't start, the queue goes back.
func TestCold(t *testing.T) {
	r := newRig(t, "warm-workers=1")
	r.start(0)
	r.Ahead.DriverCame()
	leave := func() {
		t.Helper()
		r.mustOpen(0, wire.StatusOk)
		w := r.Channels.Worker(0)
		if !w.Ahead {
			t.Fatal("it isn't warm")
		}
		w.State(func(s *handover.State) { s.AskCold() })
		w.Kill()
		<-w.Gone()
	}
	leave()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if w := r.Channels.Worker(0); w != nil && !w.Ahead && w.String() == "prog (pid 9)" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no cold worker serves")
		}
	}
	r.Channels.Close(0)
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if _, ready := r.Ahead.Kept(); ready == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no worker is warm")
		}
	}
	r.play(func(c *childtest.Child) { _, _ = c.Receive() })
	head, err := r.driver.Add(virtqueuetest.Desc{Addr: 4096, Len: 64})
	if err != nil {
		t.Fatal(err)
	}
	leave()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if id, _, ok := r.driver.Reap(); ok && uint16(id) == head {
			break
		}
		if time.Now().After(end) {
			t.Fatal("its chain doesn't come back")
		}
	}
}

// TestResume: a worker goes on with what is in a file, for a program that is there still.
func TestResume(t *testing.T) {
	r := newRig(t)
	r.start(0)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	from := saving.Source{From: file, Bytes: 1 << 20}
	p := &saving.Program{Channel: 0, PID: 5, Name: "saved"}
	yes, no := func() bool { return true }, func() bool { return false }
	if _, err := r.Resume(p, from, no); !errors.Is(err, channels.ErrNotRunning) {
		t.Fatal(err)
	}
	w, err := r.Resume(p, from, yes)
	if err != nil || w.String() != "saved (pid 5)" {
		t.Fatalf("%v, %v", w, err)
	}
	if m := r.gave()[0]; !m.Saved || !m.Files.Object {
		t.Errorf("it got %+v", m)
	}
	if _, err := r.Resume(p, from, yes); !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	w.End()
	if list := r.Channels.Serving(); slices.ContainsFunc(list,
		func(x *workers.Worker) bool { return suspend.Worker(x) == w }) {
		t.Error("it serves still")
	}
}

// SPDX-License-Identifier: Apache-2.0

package opening

import (
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
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/shares"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const soon = time.Minute

// rig is the parts that an Opening joins. The VM's processes are fakes.
type rig struct {
	*Opening
	t       *testing.T
	driver  *virtqueuetest.Driver
	running await.Crowd
	left    bool // a process of the device process before this one doesn't end

	mu     sync.Mutex
	script func(*childtest.Child) // of workers
	given  []*handover.Message    // what workers got with their channels
	again  []*handover.Message    // what they were resumed with
	begun  []bool                 // whether those told of as beginning were marked, in their order
}

// notSaved is a VM of which nothing is in a file.
type notSaved struct{}

func (notSaved) Has(int) bool    { return false }
func (notSaved) Name(int) string { return "" }
func (notSaved) Forget(int)      {}

// noStrangers is a VM whose driver is ours.
type noStrangers struct{}

func (noStrangers) Begin(int, func() (*vhostuser.Waiter, error)) {}
func (noStrangers) End(int)                                      {}

func newRig(t *testing.T, set ...string) *rig {
	t.Helper()
	r := &rig{t: t}
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
	c := Config{GPU: "soft", Exports: exports.New(16), Shares: shares.New(shares.Config{}),
		RAM: ram.New(nil, nil, log), Log: log,
		Start:  soon,
		Answer: 50 * time.Millisecond, Starts: pace.New(0, Burst, pace.Real),
		Held:  func() bool { return false },
		Saved: func(int) bool { return false },
		Begins: func(w *workers.Worker, base uint16) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.begun = append(r.begun, w.AsksCold() && base == w.Base() && w.Channel() == 0)
		},
		Run: func(_ string, f func()) { r.running.Go(f) }}
	guest := virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 1 << 20})
	guest.Alloc(4096, 4096)
	r.driver = virtqueuetest.NewDriver(guest, 8, false)
	c.RAM.Put(guest.Mem)
	c.Settings = settings.NewVM(s, settings.Config{GPU: "soft",
		Changed: func(_, _ *settings.Now) {}, Kept: func(string) {}})
	c.Accounts = accounts.New(accounts.Config{Log: log, Guard: guard,
		GPUTime: func() uint64 { return 0 }})
	c.Left = func(<-chan struct{}) bool { return !r.left }
	still := make(chan struct{})
	close(still)
	c.Channels = channels.New(channels.Config{
		Channels: 2, RAM: c.RAM, Saved: notSaved{}, Strangers: noStrangers{},
		Lingering: func() []<-chan struct{} { return nil },
		Idle:      func() <-chan struct{} { return still },
		Grace:     func() time.Duration { return soon },
		Cold:      func(channel int, p *workers.Program) { r.Cold(channel, p) },
		Park:      func(end <-chan struct{}) { <-end },
		Serves:    func(*workers.Worker, uint16) {},
		Exit:      soon, Guard: guard, Log: log,
	})
	c.Workers = workers.New(workers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return childtest.Start(control, r.script)
		},
		Limits: workers.Limits{Answer: soon, Stop: soon, Exit: soon},
		Began:  func(w *workers.Worker) { c.Accounts.Began(w) },
		Said: func(w *workers.Worker, m *handover.Message, fds []int) {
			handover.CloseFiles(fds)
			if m.Kind == handover.KindConfined {
				w.BeginsToAsk()
			}
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

// awaitWarm waits for a warm worker, and returns all that there are.
func (r *rig) awaitWarm() []*workers.Worker {
	r.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if all, ready := r.Ahead.Kept(); ready == 1 {
			return all
		}
		if time.Now().After(end) {
			r.t.Fatal("no worker is warm")
		}
	}
}

func (r *rig) end() {
	r.Ahead.DriverGone()
	r.Channels.KillAll()
	for i := range 2 {
		_, _ = r.Channels.Stop(i)
	}
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
		r.mu.Lock()
		switch m.Kind {
		case handover.KindStart:
			r.given = append(r.given, m)
		case handover.KindResume:
			r.again = append(r.again, m)
		}
		r.mu.Unlock()
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

// resumed is what workers were resumed with.
func (r *rig) resumed() []*handover.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.again)
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

// SPDX-License-Identifier: Apache-2.0

package channels

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

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/strangers"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const (
	soon   = time.Minute
	little = 100 * time.Millisecond
)

// fakeSaved are channels whose programs are in a file.
type fakeSaved struct {
	mu   sync.Mutex
	name map[int]string
}

func (s *fakeSaved) Has(channel int) bool { return s.Name(channel) != "" }

func (s *fakeSaved) Name(channel int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name[channel]
}

func (s *fakeSaved) Forget(channel int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.name, channel)
}

func (s *fakeSaved) save(channel int, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name[channel] = name
}

// cold is a request to start a cold worker.
type cold struct {
	channel int
	program *workers.Program
}

// rig is two channels of a guest, whose workers are fakes.
type rig struct {
	*Table
	t         *testing.T
	saved     *fakeSaved
	strangers *strangers.Watch
	guest     *virtqueuetest.Guest
	drivers   []*virtqueuetest.Driver
	kicks     []int
	workers   *workers.Workers
	script    func(*childtest.Child)
	colds     chan cold
	parked    chan struct{} // something is waited for that may never come
	running   await.Crowd

	mu     sync.Mutex
	linger []<-chan struct{} // ends of movers that don't
	told   []handover.Kind   // to workers that note it
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, saved: &fakeSaved{name: map[int]string{}}, script: childtest.Polite,
		guest: virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 1 << 20}),
		colds: make(chan cold, 4), parked: make(chan struct{}, 4)}
	r.guest.Alloc(4096, 4096)
	text := logrus.New()
	text.SetOutput(io.Discard)
	log := logrus.NewEntry(text)
	memory := ram.New(nil, nil, log)
	memory.Put(r.guest.Mem)
	still := make(chan struct{})
	close(still)
	guard := func(_ string, f func()) bool { f(); return true }
	r.strangers = strangers.New(strangers.Config{
		Return: func(channel int, still func() bool) { r.Reclaim(channel, still) },
		Guard:  guard, Log: log,
	})
	r.Table = New(Config{
		Strangers: r.strangers, Channels: 2, RAM: memory, Saved: r.saved, Lingering: r.lingering,
		Idle:   func() <-chan struct{} { return still },
		Grace:  func() time.Duration { return little },
		Cold:   func(channel int, p *workers.Program) { r.colds <- cold{channel, p} },
		Serves: func(*workers.Worker, uint16) {},
		Park: func(end <-chan struct{}) {
			r.parked <- struct{}{}
			<-end
		},
		Exit: little, Guard: guard, Log: log,
	})
	r.workers = workers.New(workers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			return childtest.Start(control, r.script)
		},
		Limits: workers.Limits{Answer: soon, Stop: little, Exit: little},
		Began:  func(*workers.Worker) {},
		Said: func(_ *workers.Worker, _ *handover.Message, fds []int) {
			handover.CloseFiles(fds)
		},
		Exited: func(*workers.Worker) {},
		Ended:  func(w *workers.Worker, err error) { r.Ended(w, err) }, Guard: guard, Log: log,
		Run: func(_ string, f func()) { r.running.Go(f) },
	})
	for range 2 {
		r.drivers = append(r.drivers, virtqueuetest.NewDriver(r.guest, 8, false))
		r.kicks = append(r.kicks, eventfd(t))
	}
	t.Cleanup(r.end)
	return r
}

func eventfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// end stops all queues, and waits for all workers.
func (r *rig) end() {
	r.KillAll()
	for i := range r.drivers {
		_, _ = r.Stop(i)
	}
	if !await.Within(soon, r.running.Gone()) {
		r.t.Error("something goes on")
	}
}

func (r *rig) lingering() []<-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.linger), await.Closed)
}

// lingers has a mover not end until what it returns is closed.
func (r *rig) lingers() chan struct{} {
	end := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.linger = append(r.linger, end)
	return end
}

// start starts a channel's queue there.
func (r *rig) start(channel int, base uint16) {
	r.t.Helper()
	if err := r.Start(channel, r.config(channel, base)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) config(channel int, base uint16) vhostuser.QueueConfig {
	r.t.Helper()
	d := r.drivers[channel]
	kick, err := unix.FcntlInt(uintptr(r.kicks[channel]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	c := vhostuser.QueueConfig{Size: d.Size, Desc: d.Desc, Avail: d.Avail, Used: d.Used,
		Base: base, Kick: vhostuser.NewFD(kick)}
	r.t.Cleanup(func() { _ = c.Kick.Close() })
	return c
}

// add makes a chain available.
func (r *rig) add(channel int) uint16 {
	r.t.Helper()
	head, err := r.drivers[channel].Add(virtqueuetest.Desc{Addr: 4096, Len: 64})
	if err != nil {
		r.t.Fatal(err)
	}
	_, _ = unix.Write(r.kicks[channel], []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return head
}

// mustReap waits until these chains came back, and says that no more did.
func (r *rig) mustReap(channel int, heads ...uint16) {
	r.t.Helper()
	var got []uint16
	for end := time.Now().Add(soon); len(got) < len(heads) && time.Now().Before(end); {
		if id, _, ok := r.drivers[channel].Reap(); ok {
			got = append(got, uint16(id))
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, heads) {
		r.t.Fatalf("chains %v came back, want %v", got, heads)
	}
	r.mustKeep(channel)
}

// mustKeep says that no chain comes back.
func (r *rig) mustKeep(channel int) {
	r.t.Helper()
	time.Sleep(10 * time.Millisecond)
	if id, _, ok := r.drivers[channel].Reap(); ok {
		r.t.Fatalf("chain %d came back", id)
	}
}

var errNo = errors.New("no")

// begin starts a worker and gives it a channel's queue. It serves it when it has been told so.
func (r *rig) begin(channel int, ahead bool) *workers.Worker {
	r.t.Helper()
	w, err := r.Assign(channel, workers.Program{PID: 9, Name: "prog"},
		func(as *Assignment) (*workers.Worker, error) {
			home := workers.Cold
			if ahead {
				home = 0
			}
			w, err := r.workers.Start(handover.Policy{}, home)
			if err != nil {
				return nil, err
			}
			m, fds := as.Start(w, false, false)
			return w, w.Conn().Tell(m, fds)
		})
	if err != nil {
		r.t.Fatal(err)
	}
	q := r.config(channel, 0)
	r.mustKnowRings(w, &q)
	return w
}

// serve has a worker serve a channel.
func (r *rig) serve(channel int) *workers.Worker {
	r.t.Helper()
	w := r.begin(channel, false)
	if err := r.Serves(w, nil); err != nil {
		r.t.Fatal(err)
	}
	return w
}

// die ends a worker, and waits until it is gone.
func (r *rig) die(w *workers.Worker) {
	r.t.Helper()
	w.Kill()
	if !await.Within(soon, w.Gone()) {
		r.t.Fatal("the worker isn't gone")
	}
}

// noting is a polite child's script that notes what it is told.
func (r *rig) noting(c *childtest.Child) {
	for {
		kind, err := c.Receive()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.told = append(r.told, kind)
		r.mu.Unlock()
		if kind == handover.KindPause {
			_ = c.Conn.Send(&handover.Message{Kind: handover.KindPaused}, nil)
		}
	}
}

// mustBeTold waits until workers were told that so often.
func (r *rig) mustBeTold(kind handover.Kind, times int) {
	r.t.Helper()
	n := 0
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		n = len(r.told) - len(slices.DeleteFunc(slices.Clone(r.told),
			func(k handover.Kind) bool { return k == kind }))
		r.mu.Unlock()
		if n == times {
			return
		}
	}
	r.t.Fatalf("%q was told %d times, not %d", kind, n, times)
}

// mustKnowRings waits until it is known where the rings of a worker's queue are.
func (r *rig) mustKnowRings(w *workers.Worker, q *vhostuser.QueueConfig) {
	r.t.Helper()
	if rings := w.AwaitRings(); len(rings) != 3 || rings[0].Address != q.Desc ||
		rings[1].Address != q.Avail || rings[2].Address != q.Used || rings[0].Bytes != 16*8 ||
		rings[1].Bytes != 4+2*8 || rings[2].Bytes != 4+8*8 {
		r.t.Errorf("its rings are at %+v, and not where those of %+v are", rings, q)
	}
}

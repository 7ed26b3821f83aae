// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave/mapleavetest"
	"github.com/paracuda/paracuda/gpubackend/numbering"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	soon = time.Minute
	page = 4096

	guestPages = 64
)

// rig has Mappings for workers that are fakes: a thread of the test maps for them.
type rig struct {
	*Mappings
	t       testing.TB
	guest   *virtqueuetest.Guest
	workers *workers.Workers
	got     chan *handover.Message // what workers are told
	running await.Crowd
	root    atomic.Uint64 // where the driver says what is whose

	mu   sync.Mutex
	text bytes.Buffer
}

// Write is where the log goes.
func (r *rig) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// said is how often the log has a text.
func (r *rig) said(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), text)
}

func newRig(t *testing.T) *rig { return newRigOf(t, guestPages*page) }

// newRigOf is one of a guest with so much memory.
func newRigOf(t testing.TB, bytes uint64) *rig {
	t.Helper()
	r := &rig{t: t, got: make(chan *handover.Message, 8),
		guest: virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: bytes})}
	log := logrus.New()
	log.SetOutput(r)
	numbers, err := numbering.New(nil, mapleavetest.From, 4)
	if err != nil {
		t.Fatal(err)
	}
	run := func(_ string, f func()) { r.running.Go(f) }
	r.Mappings = New(Config{RAM: ram.New(numbers, nil, logrus.NewEntry(log)), Run: run,
		Vouchers: r.root.Load, Log: logrus.NewEntry(log)})
	r.workers = workers.New(workers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			return childtest.Start(control, func(c *childtest.Child) {
				for {
					m, fds, err := c.Conn.Receive()
					handover.CloseFiles(fds)
					if err != nil {
						return
					}
					r.got <- m
				}
			})
		},
		Limits: workers.Limits{Answer: soon, Stop: soon, Exit: soon},
		Began:  func(*workers.Worker) {}, Exited: func(*workers.Worker) {},
		Said:  func(*workers.Worker, *handover.Message, []int) {},
		Ended: func(*workers.Worker, error) {},
		Guard: func(_ string, f func()) bool { f(); return true }, Run: run,
		Log: logrus.NewEntry(log),
	})
	t.Cleanup(func() {
		if !await.Within(soon, r.running.Gone()) {
			t.Error("something goes on")
		}
	})
	return r
}

// worker is one that has begun.
func (r *rig) worker() *workers.Worker {
	r.t.Helper()
	w, err := r.workers.Start(handover.Policy{}, workers.Cold)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Kill)
	return w
}

// confined has a worker say that it has confined itself, and returns what it is told.
func (r *rig) confined(w *workers.Worker, listener int, missing string) *handover.Message {
	r.t.Helper()
	m := &handover.Message{Kind: handover.KindConfined, Error: missing}
	var fds []int
	if listener >= 0 {
		m.Files.Listener, fds = true, []int{listener}
	}
	r.Confined(w, m, fds)
	answer := <-r.got
	if answer.Kind != handover.KindGuest {
		r.t.Fatalf("it is told %q", answer.Kind)
	}
	return answer
}

// again is another descriptor of a file, for somebody to own.
func again(t *testing.T, fd int) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// first maps the first page of file number n.
func first(n uintptr) mapleavetest.Attempt {
	return mapleavetest.Attempt{Length: page, Prot: unix.PROT_READ, Flags: unix.MAP_SHARED,
		FD: mapleavetest.From + n}
}

// TestAsks: a worker with a listener gets numbers, and the device process decides on what it maps
// of the guest's memory, as soon as there is some. The worker's end ends that.
func TestAsks(t *testing.T) {
	r := newRig(t)
	a := mapleavetest.New(t)
	w := r.worker()
	if m := r.confined(w, a.Listener, ""); m.Memory != nil || !w.Asks() {
		t.Errorf("without memory: %+v; it asks: %t", m, w.Asks())
	}
	waits := a.Try(first(0))
	select {
	case got := <-waits:
		t.Errorf("without memory: %v", got.Err)
	case <-time.After(50 * time.Millisecond):
	}
	r.RAM.Put(r.guest.Mem)
	if got := <-waits; got.Err != nil {
		t.Errorf("the first page: %v", got.Err)
	}
	if got := <-a.Try(first(1)); !errors.Is(got.Err, unix.EACCES) || r.said("may not map") != 1 {
		t.Errorf("another file: %v", got.Err)
	}
	kept := false
	if w.WithListener(func(int) { kept = true }); !kept {
		t.Error("the next device process gets no listener")
	}
	if err := unix.Close(mapleavetest.From); err != nil {
		t.Error(err)
	}
	w.Kill()
	if !await.Within(soon, w.Gone()) {
		t.Error("it isn't gone")
	}
}

// TestIsToldNumbers: a worker that asks gets numbers, and one that can't gets files; the reason is
// logged once.
func TestIsToldNumbers(t *testing.T) {
	r := newRig(t)
	r.RAM.Put(r.guest.Mem)
	a := mapleavetest.New(t)
	m := r.confined(r.worker(), a.Listener, "")
	if len(m.Memory) != 1 || m.Files.Memory != 0 || m.Memory[0].File != mapleavetest.From {
		t.Errorf("with a listener: %+v", m)
	}
	for range 2 {
		w := r.worker()
		m := r.confined(w, -1, "there is none")
		if len(m.Memory) != 1 || m.Files.Memory != 1 || w.Asks() {
			t.Errorf("without: %+v; it asks: %t", m, w.Asks())
		}
		w.WithListener(func(int) { t.Error("it has a listener") })
	}
	w := r.worker()
	if m := r.confined(w, again(t, r.guest.FDs[0]), ""); m.Files.Memory != 1 || w.Asks() {
		t.Errorf("a file that is no listener: %+v", m)
	}
	if n := r.said("there is none"); n != 1 || r.said("have the files") != 1 {
		t.Errorf("the reason is logged %d times", n)
	}
}

// TestAheadOfUse: a worker that was started ahead of use asks, too, and is told of the memory with
// its program.
func TestAheadOfUse(t *testing.T) {
	r := newRig(t)
	r.RAM.Put(r.guest.Mem)
	a := mapleavetest.New(t)
	w, err := r.workers.Start(handover.Policy{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	if w.Confined() {
		t.Error("it has said nothing yet")
	}
	m := &handover.Message{Kind: handover.KindConfined}
	m.Files.Listener = true
	r.Confined(w, m, []int{a.Listener})
	if !w.Confined() || !w.Asks() || len(r.got) != 0 {
		t.Errorf("it asks: %t; it is told %d messages", w.Asks(), len(r.got))
	}
	if got := <-a.Try(first(0)); got.Err != nil {
		t.Errorf("the first page: %v", got.Err)
	}
}

// TestListenedToOnce: what a worker says later is closed, and not answered.
func TestListenedToOnce(t *testing.T) {
	r := newRig(t)
	w := r.worker()
	r.confined(w, -1, "")
	a := mapleavetest.New(t)
	m := &handover.Message{Kind: handover.KindConfined}
	m.Files.Listener = true
	r.Confined(w, m, []int{a.Listener})
	if _, err := unix.FcntlInt(uintptr(a.Listener), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Error("a second listener stays open")
	}
	if w.Asks() || len(r.got) != 0 {
		t.Error("it was heard twice")
	}
}

// TestTakenOver: the next device process goes on with the listener that is left, and knows what the
// worker may have; one without listener has the files.
func TestTakenOver(t *testing.T) {
	r := newRig(t)
	mem, err := guestmem.New([]guestmem.Region{{Size: page, FD: r.guest.FDs[0]}})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	r.RAM.Put(mem)
	a := mapleavetest.New(t)
	w := r.worker()
	r.TakeOver(w, a.Listener)
	if !w.Asks() {
		t.Fatal("it doesn't ask")
	}
	if got := <-a.Try(first(0)); got.Err != nil {
		t.Error(got.Err)
	}
	if err := unix.Close(mapleavetest.From); err != nil {
		t.Error(err)
	}
	without := r.worker()
	r.TakeOver(without, -1)
	if without.Asks() || without.BeginsToAsk() {
		t.Error("one without listener asks, or may begin to")
	}
}

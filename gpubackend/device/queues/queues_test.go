// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"io"
	"os"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// rig is a queue of 8 and its driver.
type rig struct {
	*Queue
	t      *testing.T
	guest  *virtqueuetest.Guest
	driver *virtqueuetest.Driver
	call   int
	at     uint64
}

func quiet() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	guest := virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 1 << 20})
	guest.Alloc(4096, 4096)
	call, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(call) })
	return &rig{Queue: New(3, nil, quiet()), t: t, guest: guest,
		driver: virtqueuetest.NewDriver(guest, 8, false), call: call,
		at: guest.Alloc(4096, 4096)}
}

// start starts the queue there.
func (r *rig) start(base uint16, resumed bool) (moved bool) {
	r.t.Helper()
	kick, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		r.t.Fatal(err)
	}
	call, err := unix.FcntlInt(uintptr(r.call), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	c := r.config(base, resumed)
	c.Kick, c.Call = vhostuser.NewFD(kick), vhostuser.NewFD(call)
	defer c.Kick.Close()
	defer c.Call.Close()
	if moved, err = r.Start(c); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if r.Runs() {
			r.Stop()
		}
	})
	return moved
}

func (r *rig) config(base uint16, resumed bool) vhostuser.QueueConfig {
	return vhostuser.QueueConfig{Size: r.driver.Size, Desc: r.driver.Desc, Avail: r.driver.Avail,
		Used: r.driver.Used, Base: base, Resumed: resumed}
}

// add makes n chains available.
func (r *rig) add(n int) (heads []uint32) {
	r.t.Helper()
	for range n {
		head, err := r.driver.Add(virtqueuetest.Desc{Addr: r.at, Len: 64})
		if err != nil {
			r.t.Fatal(err)
		}
		heads = append(heads, uint32(head))
	}
	return heads
}

// reaped are the chains that came back.
func (r *rig) reaped() (heads []uint32) {
	for {
		head, _, ok := r.driver.Reap()
		if !ok {
			return heads
		}
		heads = append(heads, head)
	}
}

// signalled says whether the driver gets an interrupt.
func (r *rig) signalled() bool {
	fds := []unix.PollFd{{Fd: int32(r.call), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds, 60_000)
	return n == 1
}

// worker takes n chains as a worker does, and leaves what it noted.
func (r *rig) worker(n int) (*handover.State, *virtqueue.Queue) {
	r.t.Helper()
	state, err := handover.NewState()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(state.Close)
	r.Assign(state)
	m, fds := r.Message(handover.KindStart, nil)
	if len(fds) != 2 || !m.Files.Kick || !m.Files.Call {
		r.t.Errorf("%d files go along", len(fds))
	}
	ring, err := virtqueue.New(r.guest.Mem, virtqueue.Config{Size: m.Queue.Size,
		Desc: m.Queue.Desc, Avail: m.Queue.Avail, Used: m.Queue.Used, Base: m.Queue.Base})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(ring.Close)
	for range n {
		c, ok, err := ring.Pop()
		if err != nil || !ok {
			r.t.Fatalf("no chain: %v", err)
		}
		state.Take(c.Head(), ring.Base())
	}
	return state, ring
}

func TestStartAndStop(t *testing.T) {
	r := newRig(t)
	started := r.Started()
	if _, err := r.Start(r.config(0, false)); err == nil || r.Runs() {
		t.Error("a queue without a kick runs")
	}
	if r.start(0, false) || !r.Runs() || r.Size() != 8 {
		t.Error("a new queue doesn't begin where it is")
	}
	<-started
	r.PausedAt(5)
	r.Stop()
	select {
	case <-r.Started():
		t.Error("it is stopped")
	default:
	}
	if r.start(5, false) {
		t.Error("it goes on where it stopped")
	}
	r.Stop()
	if !r.start(2, false) || r.Base() != 2 {
		t.Error("it doesn't go on where it stopped")
	}
	kicks, err := r.Kicks()
	if err != nil {
		t.Fatal(err)
	}
	_ = kicks.Close()
}

// TestGiveBack: what a worker held, and what none took, in the driver's order.
func TestGiveBack(t *testing.T) {
	r := newRig(t)
	r.start(0, false)
	heads := r.add(3)
	state, _ := r.worker(2)
	r.Leave(state, r.guest.Mem)
	if n := len(r.Held()); n != 2 {
		t.Errorf("the worker left %d", n)
	}
	r.GiveBack(r.guest.Mem)
	if got := r.reaped(); !slices.Equal(got, heads) {
		t.Errorf("%v came back of %v", got, heads)
	}
	if r.Base() != 3 || r.Held() != nil || !r.signalled() {
		t.Errorf("at %d, held %v, or no interrupt", r.Base(), r.Held())
	}
}

// TestHalfReturned: a chain comes back once, however far the worker got with it.
func TestHalfReturned(t *testing.T) {
	for _, pushed := range []bool{false, true} {
		r := newRig(t)
		r.start(0, false)
		heads := r.add(2)
		state, ring := r.worker(2)
		state.Giving(uint16(heads[0]), ring.NextUsed())
		if pushed {
			if err := ring.Push(uint16(heads[0]), 0); err != nil {
				t.Fatal(err)
			}
		}
		r.Leave(state, r.guest.Mem)
		r.GiveBack(r.guest.Mem)
		if got := r.reaped(); !slices.Equal(got, heads) {
			t.Errorf("pushed %v: %v came back of %v", pushed, got, heads)
		}
	}
}

// TestBeginAgain: what was held is another worker's, or another driver's.
func TestBeginAgain(t *testing.T) {
	r := newRig(t)
	r.start(0, false)
	heads := r.add(2)
	state, _ := r.worker(2)
	r.Leave(state, r.guest.Mem)
	r.Rewind(0)
	if _, ring := r.worker(2); ring.Base() != 2 {
		t.Errorf("another worker is at %d", ring.Base())
	}
	r.Forget()
	r.PausedAt(2)
	r.GiveBack(r.guest.Mem)
	if got := r.reaped(); len(got) != 0 {
		t.Errorf("%v of %v came back to another driver", got, heads)
	}
}

// TestNextProcess finds what a worker of the one before noted, or what that was giving back.
func TestNextProcess(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		kept := keepertest.Store{}
		t.Cleanup(func() {
			for number := range kept {
				_ = kept.DropOwn(number)
			}
		})
		first, _, err := remains.New(kept, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(first.Close)
		r := newRig(t)
		r.Queue = New(3, first, quiet())
		r.start(0, false)
		heads := r.add(3)
		state, _ := r.worker(2)
		if recorded {
			r.Leave(state, r.guest.Mem)
			r.recordReturn()
			for _, head := range r.held {
				r.record.Queue(0).Take(head)
			}
			first.Drop(remains.State(3))
			_ = r.record.Close()
		}
		r.Stop()
		second, _, err := remains.New(kept, kept.Given(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(second.Close)
		r.Queue = New(3, second, quiet())
		r.start(0, true)
		r.TakeOver(r.config(0, true), r.guest.Mem)
		r.GiveBack(r.guest.Mem)
		if got := r.reaped(); !slices.Equal(got, heads) {
			t.Errorf("recorded %v: %v came back of %v", recorded, got, heads)
		}
		if _, left := kept[uint32(remains.Record(3))]; left {
			t.Error("a record is kept of nothing")
		}
		if _, left := kept[uint32(remains.State(3))]; left {
			t.Error("a state is kept of no worker")
		}
	}
}

// TestWorkerThatEndsAsItBegins: what the worker before it left in flight is still noted for the
// next process.
func TestWorkerThatEndsAsItBegins(t *testing.T) {
	r := newRig(t)
	r.start(0, false)
	r.add(3)
	before, _ := r.worker(2)
	r.Leave(before, r.guest.Mem)
	want := r.Held()
	state, err := handover.NewState()
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	r.Assign(state)
	got := state.InFlight(virtqueue.MaxSize)
	if len(want) != 2 || !slices.Equal(got, want) || state.Base() != 2 {
		t.Errorf("%v at %d, want %v", got, state.Base(), want)
	}
}

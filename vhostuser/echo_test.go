// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// echoDevice is the smallest device that serves a queue: it writes back what it reads. Each queue
// has a goroutine, which sleeps on the kick descriptor and on one that says stop.
type echoDevice struct {
	*Device
	tb  testing.TB
	mem *guestmem.Memory

	queues map[int]*echoQueue
}

type echoQueue struct {
	q    *virtqueue.Queue
	cfg  vhostuser.QueueConfig
	stop *vhostuser.FD
	done chan struct{}

	mu   sync.Mutex
	call *vhostuser.FD // guarded by mu
}

func (d *echoDevice) SetMemory(m *vhostuser.Memory) error {
	if err := d.Device.SetMemory(m); err != nil {
		return err
	}
	mem, err := m.Map()
	if err != nil {
		return err
	}
	if d.mem != nil && len(d.queues) == 0 {
		if err := d.mem.Close(); err != nil {
			d.tb.Error(err)
		}
	}
	d.mem = mem
	return nil
}

func (d *echoDevice) StartQueue(i int, cfg vhostuser.QueueConfig) error {
	if err := d.Device.StartQueue(i, cfg); err != nil {
		return err
	}
	q, err := virtqueue.New(d.mem, virtqueue.Config{
		Size: cfg.Size, Desc: cfg.Desc, Avail: cfg.Avail, Used: cfg.Used, Base: cfg.Base,
		EventIdx: cfg.EventIdx(), Indirect: cfg.Indirect(),
	})
	if err != nil {
		return err
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	e := &echoQueue{q: q, cfg: cfg, stop: vhostuser.NewFD(stop), done: make(chan struct{}),
		call: cfg.Call}
	d.queues[i] = e
	go e.run(d.tb)
	return nil
}

func (d *echoDevice) SetCall(i int, call *vhostuser.FD) error {
	e := d.queues[i]
	e.mu.Lock()
	defer e.mu.Unlock()
	e.call = call
	return d.Device.SetCall(i, call)
}

func (d *echoDevice) StopQueue(i int) (uint16, error) {
	_, err := d.Device.StopQueue(i)
	e := d.queues[i]
	delete(d.queues, i)
	_ = e.stop.Signal()
	<-e.done
	_ = e.stop.Close()
	base := e.q.Base()
	e.q.Close()
	return base, err
}

func (e *echoQueue) run(tb testing.TB) {
	defer close(e.done)
	for {
		for c, ok, err := e.q.Pop(); ok || err != nil; c, ok, err = e.q.Pop() {
			if err != nil {
				tb.Errorf("Pop: %v", err)
				return
			}
			p := make([]byte, c.ReadLen())
			_, _ = c.ReadAt(p, 0)
			n, _ := c.WriteAt(p, 0)
			if err := e.q.Push(c.Head(), uint32(n)); err != nil {
				tb.Errorf("Push: %v", err)
			}
		}
		e.mu.Lock()
		if e.q.NeedsNotify() && e.call != nil {
			_ = e.call.Signal()
		}
		e.mu.Unlock()
		if more, err := e.q.EnableKick(); more || err != nil {
			continue
		}
		fds := []unix.PollFd{
			{Fd: int32(e.cfg.Kick.Int()), Events: unix.POLLIN},
			{Fd: int32(e.stop.Int()), Events: unix.POLLIN},
		}
		_, _ = unix.Poll(fds, -1)
		if fds[1].Revents != 0 {
			return
		}
		_, _ = e.cfg.Kick.Drain()
	}
}

// Requests go through a session, a queue, a pause and a move of the call descriptor.
func TestEchoThroughSession(t *testing.T) {
	t.Parallel()
	rec := NewDevice(t, 1)
	dev := &echoDevice{Device: rec, tb: t, queues: map[int]*echoQueue{}}
	defer func() {
		if dev.mem != nil {
			_ = dev.mem.Close()
		}
	}()
	r := newRigWith(t, dev, rec, vhostuser.Options{})
	r.MustSend(vhostuser.SetFeatures, Word(r.Realize(1)))
	g := vt.NewGuest(t, vt.Span{Addr: 0x10000, Size: mib})
	r.AddMemory(g)
	q := NewQueue(t, g, 0, 8)
	in, out := g.Alloc(16, 16), g.Alloc(16, 16)
	request := func(i int) {
		t.Helper()
		text := []byte{'r', 'e', 'q', byte(i), byte(i >> 8)}
		g.Write(in, text)
		q.Driver.SetUsedEvent(q.Driver.UsedIdx())
		if _, err := q.Driver.Add(vt.Desc{Addr: in, Len: 5},
			vt.Desc{Addr: out, Len: 5, Flags: vt.Write}); err != nil {
			t.Fatal(err)
		}
	}
	finish := func(i int) {
		t.Helper()
		if q.Driver.NeedsKick() {
			_, _ = unix.Write(q.Kick, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		}
		fds := []unix.PollFd{{Fd: int32(q.Call), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 5000); n != 1 {
			t.Fatalf("request %d: no interrupt: %v", i, err)
		}
		_, _ = unix.Read(q.Call, make([]byte, 8))
		if _, n, ok := q.Driver.Reap(); !ok || n != 5 {
			t.Fatalf("request %d: Reap = %d, %v", i, n, ok)
		}
		if got := g.Read(out, 5); got[3] != byte(i) {
			t.Fatalf("request %d: response %q", i, got)
		}
	}
	// The first request is there, kicked, before the ring is enabled.
	request(0)
	_, _ = unix.Write(q.Kick, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	r.Start(q)
	finish(0)
	for i := 1; i < 100; i++ {
		request(i)
		finish(i)
		if i%20 == 0 {
			r.Stop(q)
			if q.Base != uint16(i+1) {
				t.Fatalf("base %d after %d requests", q.Base, i+1)
			}
			q.Call = Eventfd(t)
			r.Start(q)
		}
	}
	_ = r.Conn.Close()
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}

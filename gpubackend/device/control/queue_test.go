// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// life is a Queue, and what it says of drivers.
type life struct {
	*rig
	queue    *Queue
	expected []bool
}

func newLife(t *testing.T) *life {
	l := &life{rig: newRig(t)}
	l.config.Expect = func(greeted bool) { l.expected = append(l.expected, greeted) }
	l.config.Again = func() { t.Error("there was no device process before this one") }
	l.queue = New(l.config)
	return l
}

// begin starts the queue where it stood.
func (l *life) begin(base uint16) {
	l.t.Helper()
	kick, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		l.t.Fatal(err)
	}
	l.kick = kick
	own, err := unix.FcntlInt(uintptr(kick), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	fd := vhostuser.NewFD(own)
	defer fd.Close()
	if err := l.queue.Start(vhostuser.QueueConfig{Size: l.driver.Size, Desc: l.driver.Desc,
		Avail: l.driver.Avail, Used: l.driver.Used, Base: base, Kick: fd},
		l.guest.Mem); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) end() (base uint16) {
	l.t.Helper()
	defer unix.Close(l.kick)
	base, err := l.queue.Stop()
	if err != nil {
		l.t.Fatal(err)
	}
	return base
}

// TestStopped: what can't be asked of a queue that is stopped.
func TestStopped(t *testing.T) {
	l := newLife(t)
	if err := l.queue.Start(vhostuser.QueueConfig{}, nil); !errors.Is(err, queues.ErrNoMemory) {
		t.Errorf("start without memory: %v", err)
	}
	if _, err := l.queue.Stop(); !errors.Is(err, queues.ErrNotRunning) {
		t.Errorf("stop: %v", err)
	}
	if err := l.queue.SetCall(nil); !errors.Is(err, queues.ErrNotRunning) {
		t.Errorf("set call: %v", err)
	}
	if err := l.queue.SetMemory(l.guest.Mem); err != nil {
		t.Errorf("set memory: %v", err)
	}
	l.queue.SettingsChanged()
	l.queue.Forget()
	if l.queue.Runs() || l.queue.Unanswered() || l.queue.Generation() != 6 {
		t.Error("it isn't as it began")
	}
}

// TestGenerations: a driver is told the generation that an earlier device told, once that is known.
func TestGenerations(t *testing.T) {
	l := newLife(t)
	l.begin(0)
	l.hello() // it is told 6
	if !l.queue.Runs() {
		t.Error("it doesn't run")
	}
	base := l.end()
	l.queue.GoOnAs(9)
	l.begin(base)
	a, _ := l.ask(wire.ControlRequest{Type: wire.ControlHello, Number: 5})
	if a.Number != 9 || l.queue.Generation() != 9 {
		t.Errorf("%+v", a)
	}
	l.end()
	if len(l.expected) != 2 || l.expected[0] || !l.expected[1] {
		t.Errorf("drivers have greeted: %t", l.expected)
	}
}

// TestForgotten: requests that weren't answered when the queue stopped are dropped when they are
// forgotten, or when another driver's queue is started, even if that fails. They are dropped once.
func TestForgotten(t *testing.T) {
	for name, drop := range map[string]func(*life){
		"forget": func(l *life) { l.queue.Forget() },
		"another driver": func(l *life) {
			for range 2 {
				if err := l.queue.Start(vhostuser.QueueConfig{}, l.guest.Mem); err == nil {
					t.Fatal("a queue without descriptors starts")
				}
			}
		},
	} {
		l := newLife(t)
		l.begin(0)
		l.hello()
		l.post(openChannel)
		ask := <-l.opened
		l.parked.Store(1) // the request may take for ever
		if l.end(); !l.queue.Unanswered() {
			t.Errorf("%s: nothing is unanswered", name)
		}
		drop(l)
		if l.queue.Unanswered() || !await.Closed(ask.Dropped) {
			t.Errorf("%s: a request is left", name)
		}
		l.open <- wire.StatusOk
	}
}

// TestFrontEndsOtherMemory: after the front end has sent memory and a call descriptor, the queue
// goes on, and signals by that descriptor.
func TestFrontEndsOtherMemory(t *testing.T) {
	l := newLife(t)
	l.begin(0)
	l.hello()
	between, err := guestmem.New(l.guest.Mem.Regions())
	if err != nil {
		t.Fatal(err)
	}
	for _, mem := range []*guestmem.Memory{between, l.guest.Mem} {
		if err := l.queue.SetMemory(mem); err != nil {
			t.Fatal(err)
		}
	}
	if err := between.Close(); err != nil { // who used it would fault
		t.Fatal(err)
	}
	call, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	fd := vhostuser.NewFD(call)
	defer fd.Close()
	if err := l.queue.SetCall(fd); err != nil {
		t.Fatal(err)
	}
	a, _ := l.ask(wire.ControlRequest{Type: wire.ControlPing})
	if a.Status != wire.StatusOk {
		t.Errorf("%+v", a)
	}
	var b [8]byte
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if n, _ := unix.Read(call, b[:]); n == 8 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it signals nobody")
		}
	}
	l.end()
}

// TestStopWhereTheIndexWraps: a queue's index is 0 again after 65,536 requests. A driver that goes
// on there needn't greet again, and gets its answers; one with rings of its own must greet.
func TestStopWhereTheIndexWraps(t *testing.T) {
	l := newLife(t)
	l.driver.StartAt(0xfffe)
	l.begin(0xfffe)
	l.hello()
	at := l.post(openChannel)
	<-l.opened
	l.parked.Store(1) // the request may take for ever
	base := l.end()
	l.parked.Store(0)
	if base != 0 {
		t.Fatalf("it stands at %d", base)
	}
	l.begin(base)
	l.open <- wire.StatusBusy
	if a, _ := l.answered(at); a.Status != wire.StatusBusy {
		t.Errorf("%+v", a)
	}
	if a, _ := l.ask(wire.ControlRequest{Type: wire.ControlPing}); a.Status != wire.StatusOk {
		t.Errorf("it has to greet again: %+v", a)
	}
	l.end()
	l.driver = virtqueuetest.NewDriver(l.guest, 8, false)
	l.begin(0)
	a, _ := l.ask(wire.ControlRequest{Type: wire.ControlPing})
	if a.Status != wire.StatusBadRequest {
		t.Errorf("another driver needn't greet: %+v", a)
	}
	l.end()
	if want := []bool{true, true, false}; !slices.Equal(l.expected, want) {
		t.Errorf("drivers have greeted: %t, want %t", l.expected, want)
	}
}

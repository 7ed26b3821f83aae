// SPDX-License-Identifier: Apache-2.0

package control

import (
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	soon   = time.Minute
	little = 20 * time.Millisecond
)

// rig is a driver, a queue, and a device that does what the test says.
type rig struct {
	*serving
	t      *testing.T
	guest  *virtqueuetest.Guest
	driver *virtqueuetest.Driver
	config Config
	told   atomic.Pointer[wire.Settings]
	parked atomic.Int32
	opened chan Asking // requests that wait for open
	open   chan uint32 // their status
	faults atomic.Int32
	kick   int
	at     uint64
	posted int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &rig{t: t, guest: virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 1 << 20}),
		opened: make(chan Asking, 8), open: make(chan uint32, 8)}
	r.guest.Alloc(4096, 4096)
	r.driver, r.at = virtqueuetest.NewDriver(r.guest, 8, false), r.guest.Alloc(4096, 4096)
	r.told.Store(&wire.Settings{Sequence: 4})
	r.config = Config{
		Greet:   func() {},
		vouched: func(uint64) {},
		OpenChannel: func(_ int, pid int32, comm string, a Asking) uint32 {
			if pid != 9 || comm != "program" || a.GPU != 1<<31 {
				t.Errorf("%q (pid %d) opens a channel for GPU %d", comm, pid, a.GPU)
			}
			r.opened <- a
			return <-r.open
		},
		CloseChannel: func(int) uint32 { panic("it can't be closed") },
		ExportObject: func(channel int, n uint32) (uint32, uint32) {
			return n + 100, wire.StatusOk
		},
		ImportObject: func(channel int, n uint32) (uint32, uint32) {
			return 0, wire.StatusNoObject
		},
		MayGo: func(key [16]byte) (uint32, bool) { return 60, key[0] == 1 },
		IsBack: func(key [16]byte) uint32 {
			if key[0] != 1 {
				return wire.StatusNoObject
			}
			return wire.StatusOk
		},
		Exports: exports.New(16), Channels: 3, Version: 5, Generation: 6, Told: r.told.Load,
		Parked: &r.parked, Exit: soon, Log: logrus.NewEntry(log),
		Guard: func(_ string, f func()) (done bool) {
			defer func() {
				if recover() != nil {
					r.faults.Add(1)
					done = false
				}
			}()
			f()
			return true
		},
	}
	return r
}

// start starts the queue, and says whether a driver has greeted.
func (r *rig) start(base uint16, late *unanswered) (hello bool) {
	r.t.Helper()
	kick, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		r.t.Fatal(err)
	}
	r.kick = kick
	own, err := unix.FcntlInt(uintptr(kick), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	fd := vhostuser.NewFD(own)
	defer fd.Close()
	r.serving, hello, err = serve(r.config, r.guest.Mem, vhostuser.QueueConfig{Size: r.driver.Size,
		Desc: r.driver.Desc, Avail: r.driver.Avail, Used: r.driver.Used, Base: base, Kick: fd},
		late, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return hello
}

func (r *rig) stop() (uint16, *unanswered) {
	defer unix.Close(r.kick)
	return r.serving.stop()
}

// post makes a request available, and returns where its response will be.
func (r *rig) post(q wire.ControlRequest) (response uint64) {
	r.t.Helper()
	if q.Comm[0] == 0 {
		copy(q.Comm[:], "program")
	}
	at := r.at + uint64(r.posted%8)*512
	r.posted++
	var b [wire.ControlRequestSize]byte
	q.Encode(b[:])
	r.guest.Write(at, b[:])
	r.guest.Write(at+256, make([]byte, RoomForSettings))
	if _, err := r.driver.Add(virtqueuetest.Desc{Addr: at, Len: uint32(len(b))},
		virtqueuetest.Desc{Addr: at + 256, Len: RoomForSettings, Flags: virtqueuetest.Write},
	); err != nil {
		r.t.Fatal(err)
	}
	_, _ = unix.Write(r.kick, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return at + 256
}

// answered is what comes back next, at a place.
func (r *rig) answered(at uint64) (a wire.ControlResponse, written uint32) {
	r.t.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, n, ok := r.driver.Reap(); ok {
			a.Decode(r.guest.Read(at, wire.ControlResponseSize))
			return a, n
		}
	}
	r.t.Fatal("no answer")
	return a, 0
}

func (r *rig) ask(q wire.ControlRequest) (wire.ControlResponse, uint32) {
	r.t.Helper()
	return r.answered(r.post(q))
}

// hello greets the device.
func (r *rig) hello() {
	r.t.Helper()
	a, n := r.ask(wire.ControlRequest{Type: wire.ControlHello, Number: 5})
	if a.Status != wire.StatusOk || a.Number != 6 || n != RoomForSettings {
		r.t.Fatalf("%+v, %d bytes", a, n)
	}
}

var openChannel = wire.ControlRequest{Type: wire.ControlOpen, Channel: 1, Pid: 9, Number: 1 << 31}

// key is that of a VM whose device is going to be away.
var key = [16]byte{1}

// TestRequests: nothing is done before a driver of this version has greeted.
func TestRequests(t *testing.T) {
	r := newRig(t)
	if r.start(0, nil) {
		t.Error("somebody has greeted before")
	}
	for _, x := range []struct {
		request wire.ControlRequest
		status  uint32
		number  uint32
		greet   bool
	}{
		{wire.ControlRequest{Type: wire.ControlPing}, wire.StatusBadRequest, 0, false},
		{wire.ControlRequest{Type: wire.ControlAway}, wire.StatusBadRequest, 0, false},
		{wire.ControlRequest{Type: wire.ControlBack, Comm: key}, wire.StatusBadRequest, 0, false},
		{openChannel, wire.StatusBadRequest, 0, false},
		{wire.ControlRequest{Type: wire.ControlHello, Number: 4}, wire.StatusBadVersion, 0, false},
		{wire.ControlRequest{Type: wire.ControlPing}, wire.StatusOk, 0, true},
		{wire.ControlRequest{Type: wire.ControlOpen, Channel: 3}, wire.StatusBadRequest, 0, false},
		{wire.ControlRequest{Type: wire.ControlExport, Number: 1}, wire.StatusOk, 101, false},
		{wire.ControlRequest{Type: wire.ControlImport}, wire.StatusNoObject, 0, false},
		{wire.ControlRequest{Type: wire.ControlRelease, Number: 1}, wire.StatusNoObject, 0, false},
		{wire.ControlRequest{Type: wire.ControlAway}, wire.StatusBadRequest, 0, false},
		{wire.ControlRequest{Type: wire.ControlAway, Comm: key}, wire.StatusOk, 60, false},
		{wire.ControlRequest{Type: wire.ControlBack}, wire.StatusNoObject, 0, false},
		{wire.ControlRequest{Type: wire.ControlBack, Comm: key}, wire.StatusOk, 0, false},
		{wire.ControlRequest{Type: 0xffff}, wire.StatusBadRequest, 0, false},
		{wire.ControlRequest{Type: wire.ControlClose}, wire.StatusNoWorker, 0, false}, // a fault
	} {
		if x.greet {
			r.hello()
		}
		if a, _ := r.ask(x.request); a.Status != x.status || a.Number != x.number {
			t.Errorf("%+v: %+v", x.request, a)
		}
	}
	if n := r.faults.Load(); n != 1 {
		t.Errorf("%d faults", n)
	}
	r.stop()
}

// TestFaultOfTheQueue costs what it was about, and no more.
func TestFaultOfTheQueue(t *testing.T) {
	r := newRig(t)
	r.start(0, nil)
	r.hello()
	r.change <- func() { panic("no control today") }
	if a, _ := r.ask(wire.ControlRequest{Type: wire.ControlPing}); a.Status != wire.StatusOk {
		t.Errorf("%+v", a)
	}
	r.stop()
}

// TestLateAnswers: what takes long when the queue stops is answered when it goes on where it
// stopped, and its driver is told to be gone when another one begins.
func TestLateAnswers(t *testing.T) {
	r := newRig(t)
	r.start(0, nil)
	r.hello()
	at := r.post(openChannel)
	a := <-r.opened
	r.parked.Store(1) // it may take for ever
	base, late := r.stop()
	r.parked.Store(0)
	select {
	case <-a.Quit:
	default:
		t.Error("the queue has stopped")
	}
	if base != 2 || !late.isOpen() || late.nothing() || late.at(base) != late {
		t.Fatalf("at %d: %+v", base, late)
	}
	if !r.start(base, late) {
		t.Error("the driver has greeted")
	}
	r.open <- wire.StatusBusy
	if got, _ := r.answered(at); got.Status != wire.StatusBusy {
		t.Errorf("%+v", got)
	}
	r.post(openChannel)
	a = <-r.opened
	r.parked.Store(1)
	_, late = r.stop()
	if late.at(0) != nil {
		t.Error("another driver's queue has its answers")
	}
	select {
	case <-a.Dropped:
	case <-time.After(soon):
		t.Error("nobody says that the driver is gone")
	}
	r.open <- wire.StatusOk
}

// TestSettings: a driver that has the settings is told when there are others.
func TestSettings(t *testing.T) {
	r := newRig(t)
	r.start(0, nil)
	r.hello()
	at := r.post(wire.ControlRequest{Type: wire.ControlSettings, Number: 4})
	time.Sleep(little)
	if _, _, ok := r.driver.Reap(); ok {
		t.Error("it has them")
	}
	r.told.Store(&wire.Settings{Sequence: 5})
	r.settingsChanged()
	var s wire.Settings
	if _, n := r.answered(at); n != RoomForSettings {
		t.Errorf("%d bytes", n)
	}
	if s.Decode(r.guest.Read(at+wire.ControlResponseSize, wire.SettingsSize)); s.Sequence != 5 {
		t.Errorf("%+v", s)
	}
	r.post(wire.ControlRequest{Type: wire.ControlSettings, Number: 5})
	if _, late := r.stop(); !late.nothing() { // it is answered at the end
		t.Errorf("%+v", late)
	}
}

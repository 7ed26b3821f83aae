// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// noDescriptors takes from this process the right to more descriptors, until the result is called.
func noDescriptors(tb testing.TB) (back func()) {
	tb.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}); err != nil {
		tb.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			tb.Error(err)
		}
	}
}

// TestNoDescriptors: without descriptors, what needs one is refused, the rest goes on, and later
// all is as before.
func TestNoDescriptors(t *testing.T) {
	g, queues := guestWithQueues(t)
	m := newTracking(t, g, queues...)
	q, fd := m.queues[0], Eventfd(t)
	v := vhostuser.InFlight{Queues: 1, QueueSize: 8}.AppendTo(nil)
	m.MustSend(vhostuser.SetLogFD, nil, fd)
	back := noDescriptors(t)
	for _, r := range []vhostuser.Request{
		vhostuser.SetVringKick, vhostuser.SetVringCall, vhostuser.SetVringErr,
	} {
		if m.Send(r, Word(0), fd) == nil {
			t.Errorf("%v was accepted without a descriptor", r)
		}
	}
	record, err := m.Query(vhostuser.GetInFlightFD, v)
	if err != nil || len(record) != 0 {
		t.Errorf("a record of what is in flight: % x, %v", record, err)
	}
	m.sync()
	back()
	m.Start(q)
	m.want(t, "start", "start 0 base 0", "call 0 true")
	m.get(t, 1, 8)
}

// TestLogWithoutItsSignal: the log goes on where no descriptor is left for the signal.
func TestLogWithoutItsSignal(t *testing.T) {
	m := newMigrating(t, 1)
	if err := m.logBase(vt.MemFD(t, 4096), 4096, 0); err != nil {
		t.Fatal(err)
	}
	m.MustSend(vhostuser.SetLogFD, nil, Eventfd(t))
	m.sync()
	back := noDescriptors(t)
	defer back()
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	m.want(t, "log on", "log true")
}

// TestLogThatHasBecomeTooSmall: a log that doesn't cover what has been plugged in since isn't
// begun.
func TestLogThatHasBecomeTooSmall(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	if err := m.logBase(vt.MemFD(t, 4096), bits, 0); err != nil {
		t.Fatal(err)
	}
	more := vt.NewGuest(t, vt.Span{Addr: 1 << 32, Size: mib})
	m.AddMemory(more)
	m.sync()
	m.rig.dev.Calls()
	if m.Send(vhostuser.SetFeatures, Word(m.features|logAll)) == nil {
		t.Error("a log that is too small is in force")
	}
	m.want(t, "log on")
	m.Stop(m.queues...)
	if got := m.transfer(vhostuser.StateSave, 0, newPipe(t)[1]); got != refused {
		t.Errorf("a VM of which writes went by is saved: %#x", got)
	}
}

// refused is the answer to a transfer that doesn't begin.
const refused = NoFD | 1

// failing has the device refuse a call.
func failing(d *Device, call string) {
	d.SetFail(func(c string) error {
		if c == call {
			return errors.New("the device can't")
		}
		return nil
	})
}

// TestDeviceThatKeepsItsLog: the session ends the log for itself all the same.
func TestDeviceThatKeepsItsLog(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	fd := vt.MemFD(t, 4096)
	if err := m.logBase(fd, bits, 0); err != nil {
		t.Fatal(err)
	}
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	failing(m.rig.dev, "log false")
	m.AddMemory(vt.NewGuest(t, vt.Span{Addr: 1 << 32, Size: mib}))
	m.dev.Write(0x5000, 1) // of a log that is closed: nothing happens
	if got := fileBytes(t, fd, 1); got[0] != 1 {
		t.Errorf("the log says %#b", got[0])
	}
	m.rig.dev.SetFail(nil)
	if err := m.logBase(vt.MemFD(t, 1<<18), 1<<18, 0); err != nil {
		t.Errorf("another log: %v", err)
	}
	if !m.dev.Logs() {
		t.Error("the device has no log")
	}
}

// TestFeaturesThatTheDeviceRefuses: the old ones stay.
func TestFeaturesThatTheDeviceRefuses(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	g := vt.NewGuest(t, vt.Span{Size: mib})
	r.AddMemory(g)
	failing(r.dev, "features 0x100000000")
	if r.Send(vhostuser.SetFeatures, Word(vhostuser.FeatureVersion1)) == nil {
		t.Error("features that the device has refused were accepted")
	}
	r.dev.SetFail(nil)
	r.MustSend(vhostuser.SetFeatures, Word(feats|vhostuser.FeatureProtocol))
	r.Start(NewQueue(t, g, 0, 8)) // the device looks whether they are those that it has
}

// TestQueueThatDoesNotStart: the front end learns of it, and may try again.
func TestQueueThatDoesNotStart(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	g := vt.NewGuest(t, vt.Span{Size: mib})
	r.AddMemory(g)
	q := NewQueue(t, g, 0, 8)
	r.MustSend(vhostuser.SetVringNum, State(0, 8))
	r.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	r.MustSend(vhostuser.SetVringKick, Word(0), q.Kick)
	failing(r.dev, "start 0 base 0")
	if r.Send(vhostuser.SetVringEnable, State(0, 1)) == nil {
		t.Error("a queue that doesn't start was enabled")
	}
	if _, runs := r.dev.Running(0); runs {
		t.Error("it runs")
	}
	r.dev.SetFail(nil)
	r.MustSend(vhostuser.SetVringEnable, State(0, 1))
	if _, runs := r.dev.Running(0); !runs {
		t.Error("it doesn't run the second time")
	}
}

// TestUsedRingLoggedElsewhere: a ring that is to be logged where it isn't doesn't start.
func TestUsedRingLoggedElsewhere(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	m.Stop(m.queues...)
	q := m.queues[0]
	a := q.Addr()
	a.Flags, a.Log = vhostuser.VringLog, q.Driver.Used+4096
	m.MustSend(vhostuser.SetVringAddr, a.AppendTo(nil))
	m.MustSend(vhostuser.SetVringKick, Word(0), q.Kick)
	if m.Send(vhostuser.SetVringEnable, State(0, 1)) == nil {
		t.Error("the ring was enabled")
	}
	a.Log = q.Driver.Used
	m.MustSend(vhostuser.SetVringEnable, State(0, 0))
	m.MustSend(vhostuser.SetVringAddr, a.AppendTo(nil))
	m.MustSend(vhostuser.SetVringEnable, State(0, 1))
}

// TestMemoryWithoutTheRing: a ring whose memory went away stops, and its error descriptor says so,
// even if the device fails to stop it.
func TestMemoryWithoutTheRing(t *testing.T) {
	t.Parallel()
	r, _, _ := started(t, 1)
	broken := Eventfd(t)
	r.MustSend(vhostuser.SetVringEnable, State(0, 0))
	r.MustSend(vhostuser.SetVringErr, Word(0), broken)
	r.MustSend(vhostuser.SetVringEnable, State(0, 1))
	r.sync()
	failing(r.dev, "stop 0")
	r.dev.Calls()
	r.SetMemory(vt.NewGuest(t, vt.Span{Addr: 1 << 33, Size: mib}))
	r.want(t, "memory", "stop 0", "memory 1")
	wantBytes(t, broken, "01 00 00 00 00 00 00 00")
	if r.dev.Regions() != 1 {
		t.Errorf("the device has %d regions", r.dev.Regions())
	}
}

// TestDescriptorsOfPaths: a descriptor that only names a file (O_PATH) looks like one of its kind
// and can do nothing.
func TestDescriptorsOfPaths(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(fifo, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, request := range []vhostuser.Request{vhostuser.SetVringKick, vhostuser.SetVringCall,
		vhostuser.SetVringErr, vhostuser.SetBackendReqFD} {
		if r.Send(request, Word(0), fd) == nil {
			t.Errorf("%v was accepted", request)
		}
	}
	r.sync()
}

// TestDescriptorsWithManyPieces: more of them than a message may have, with several bytes of one
// header. The leak check of TestMain sees that all are closed.
func TestDescriptorsWithManyPieces(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	var fds []int
	for range vhostuser.MaxFDs {
		fds = append(fds, Eventfd(t))
	}
	m := &vhostuser.Message{Request: vhostuser.SetOwner,
		Flags: vhostuser.FlagVersion | vhostuser.FlagNeedReply}
	for i, b := range m.AppendTo(nil) {
		var oob []byte
		if i < 3 {
			oob = unix.UnixRights(fds...)
		}
		if _, _, err := r.Sock.WriteMsgUnix([]byte{b}, oob, nil); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := r.Reply(vhostuser.SetOwner); err != nil || bytes.Equal(b, Word(0)) {
		t.Errorf("reply % x, %v", b, err)
	}
	r.sync()
}

// TestSocketThatTellsWhoSends: what comes along besides descriptors does no harm, on a socket that
// a service manager has set so (PassCredentials=).
func TestSocketThatTellsWhoSends(t *testing.T) {
	t.Parallel()
	near, far := Pair(t)
	raw, err := near.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}); err != nil {
		t.Fatal(err)
	}
	f, conn := NewFrontend(t, far), vhostuser.NewConn(near, time.Second)
	if err := f.Send(vhostuser.SetVringKick, Word(0), Eventfd(t)); err != nil {
		t.Fatal(err)
	}
	m, err := conn.Read()
	if err != nil || len(m.FDs) != 1 || !bytes.Equal(m.Payload, Word(0)) {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := m.FDs[0].Close(); err != nil {
		t.Error(err)
	}
}

// TestMessageLargerThanTheSocket: the rest of a message goes on its way when there is room, with
// the descriptor at its beginning alone.
func TestMessageLargerThanTheSocket(t *testing.T) {
	t.Parallel()
	near, far := Pair(t)
	if err := near.SetWriteBuffer(1); err != nil { // the kernel has a least
		t.Fatal(err)
	}
	sender := vhostuser.NewConn(near, 10*time.Second)
	reader := vhostuser.NewConn(far, 10*time.Second)
	own := vhostuser.NewFD(vt.MemFD(t, 4096))
	defer func() { _, _ = own.Disown() }()
	m := &vhostuser.Message{Request: vhostuser.SetOwner, Flags: vhostuser.FlagVersion,
		Payload: bytes.Repeat([]byte("0123456789abcdef"), 4096), FDs: []*vhostuser.FD{own}}
	written := make(chan error, 1)
	go func() { written <- sender.Write(m) }()
	got, err := reader.Read()
	if err := errors.Join(err, <-written); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Payload, m.Payload) || len(got.FDs) != 1 {
		t.Errorf("%d bytes and %d descriptors", len(got.Payload), len(got.FDs))
	}
	for _, fd := range got.FDs {
		_ = fd.Close()
	}
}

// TestClosedConn: both directions say so.
func TestClosedConn(t *testing.T) {
	t.Parallel()
	near, _ := Pair(t)
	c := vhostuser.NewConn(near, time.Second)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Read(); m != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v, %v", m, err)
	}
	if err := c.Write(&vhostuser.Message{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write: %v", err)
	}
}

// TestChannelWhoseReaderIsGone: it is given up at the first change that nobody reads.
func TestChannelWhoseReaderIsGone(t *testing.T) {
	t.Parallel()
	r := realized(t, 1)
	reader, writer := pipe(t)
	r.MustSend(vhostuser.SetBackendReqFD, nil, int(writer.Fd()))
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.s.ConfigChanged(); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a change: %v", err)
	}
	if err := r.s.ConfigChanged(); !errors.Is(err, vhostuser.ErrNoChannel) {
		t.Errorf("the next: %v", err)
	}
}

// careless is a device that doesn't look whether its state could be written.
type careless struct{ *Migrating }

func (careless) SaveState(w io.Writer) error {
	_, _ = io.Copy(w, strings.NewReader(strings.Repeat("state", 1<<20)))
	return nil
}

// TestTransferThatIsNotAwaited: a save that something else has cut off is no good one, whatever the
// device says.
func TestTransferThatIsNotAwaited(t *testing.T) {
	t.Parallel()
	dev := careless{&Migrating{Device: NewDevice(t, 1)}}
	m := &migrating{rig: newRigWith(t, dev, dev.Device, vhostuser.Options{}), dev: dev.Migrating}
	m.Realize(1)
	if got := m.transfer(vhostuser.StateSave, 0, newPipe(t)[1]); got != begun {
		t.Fatalf("transfer: %#x", got)
	}
	m.sync()
	if got := m.check(); got != 1 {
		t.Errorf("check: %#x", got)
	}
}

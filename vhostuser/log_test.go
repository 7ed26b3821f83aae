// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const logAll = vhostuser.FeatureLogAll

// migrating is a session with a device that can be migrated, whose queues run.
type migrating struct {
	*rig
	dev      *Migrating
	guest    *vt.Guest
	queues   []*Queue
	features uint64 // accepted, without the log
}

func newMigrating(tb testing.TB, queues int) *migrating {
	tb.Helper()
	dev := &Migrating{Device: NewDevice(tb, queues)}
	m := &migrating{rig: newRigWith(tb, dev, dev.Device, vhostuser.Options{}), dev: dev}
	offered := m.Realize(queues)
	protocol := m.MustQuery(vhostuser.GetProtocolFeatures)
	if offered&logAll == 0 || protocol&vhostuser.ProtocolLogShmFD == 0 {
		tb.Fatalf("features %#x are offered", offered)
	}
	m.features = offered &^ logAll
	m.MustSend(vhostuser.SetFeatures, Word(m.features))
	m.guest = vt.NewGuest(tb, vt.Span{Addr: 0, Size: mib}, vt.Span{Addr: 2 * mib, Size: mib})
	m.AddMemory(m.guest)
	for i := range queues {
		m.queues = append(m.queues, NewQueue(tb, m.guest, i, 8))
	}
	m.Start(m.queues...)
	m.sync()
	m.rig.dev.Calls()
	return m
}

// logBase sends a log and returns whether it was taken.
func (m *migrating) logBase(fd int, size, offset uint64) error {
	msg := &vhostuser.Message{
		Request: vhostuser.SetLogBase, Flags: vhostuser.FlagVersion,
		Payload: vhostuser.AppendLog(nil, size, offset),
	}
	if err := m.Write(msg, fd); err != nil {
		return err
	}
	b, err := m.Reply(vhostuser.SetLogBase)
	if err == nil && !bytes.Equal(b, Word(0)) {
		err = errors.New("refused")
	}
	return err
}

// logRings says whether the rings are to be logged, too, as QEMU does.
func (m *migrating) logRings(on bool) {
	for _, q := range m.queues {
		a := q.Addr()
		if on {
			a.Flags, a.Log = vhostuser.VringLog, q.Driver.Used
		}
		m.MustSend(vhostuser.SetVringAddr, a.AppendTo(nil))
	}
}

// bits is what the log needs for the guest: 3 MiB of pages.
const bits = 3 * mib / 4096 / 8

func fileBytes(tb testing.TB, fd int, n int) []byte {
	tb.Helper()
	b := make([]byte, n)
	if _, err := unix.Pread(fd, b, 0); err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestQEMUMigration is the order of QEMU: the log, the features while queues run, the rings; the
// end.
func TestQEMUMigration(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 2)
	fd := vt.MemFD(t, 4096)
	if err := m.logBase(fd, 4096, 0); err != nil {
		t.Fatal(err)
	}
	m.want(t, "log that isn't in force")
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	m.logRings(true)
	m.want(t, "log on", "log true")
	m.dev.Write(5*4096, 4097)
	if got := fileBytes(t, fd, 2); !bytes.Equal(got, []byte{0b1100001, 0}) {
		t.Errorf("the front end sees % x", got)
	}
	larger := vt.MemFD(t, 8192)
	if err := m.logBase(larger, 8192, 0); err != nil {
		t.Fatal(err)
	}
	m.want(t, "another log", "log true")
	m.dev.Write(2*mib, 1)
	if got := fileBytes(t, larger, 65)[64]; got != 1 {
		t.Errorf("the larger log has %#x", got)
	}
	m.Stop(m.queues...)
	m.MustSend(vhostuser.SetFeatures, Word(m.features))
	m.logRings(false)
	m.want(t, "log off", "stop 0", "stop 1", "features 0x130000000", "log false")
	m.Start(m.queues...)
	m.want(t, "on the source again",
		"start 0 base 0", "start 1 base 0", "call 0 true", "call 1 true")
}

// TestLogFromTheStart: a VM that is reset while it is migrated.
func TestLogFromTheStart(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	m.Stop(m.queues...)
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	m.logRings(true)
	if err := m.logBase(vt.MemFD(t, 4096), 4096, 0); err != nil {
		t.Fatal(err)
	}
	m.Start(m.queues...)
	m.want(t, "start",
		"stop 0", "features 0x130000000", "log true", "start 0 base 0", "call 0 true")
	m.MustSend(vhostuser.ResetDevice, nil)
	m.want(t, "reset", "stop 0", "log false", "reset")
}

func TestLogIsChecked(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	fd := vt.MemFD(t, 8192)
	for _, tt := range []struct {
		name         string
		fd           int
		size, offset uint64
		ok           bool
	}{
		{"just enough", fd, bits, 0, true},
		{"one bit short", fd, bits - 1, 0, false},
		{"empty", fd, 0, 0, false},
		{"longer than the file", fd, 8193, 0, false},
		{"ends after the file", fd, 4097, 4096, false},
		{"offset inside a page", fd, 4096, 64, false},
		{"offset wraps", fd, 4096, math.MaxUint64 - 4095, false},
		{"all ones", fd, math.MaxUint64, math.MaxUint64, false},
		{"an eventfd", Eventfd(t), 4096, 0, false},
	} {
		if err := m.logBase(tt.fd, tt.size, tt.offset); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want success %v", tt.name, err, tt.ok)
		}
	}
	b, err := m.Query(vhostuser.SetLogBase, vhostuser.AppendLog(nil, 4096, 0))
	if err != nil || !bytes.Equal(b, Word(1)) {
		t.Errorf("a log without a file: % x, %v", b, err)
	}
	if err := m.Send(vhostuser.SetLogFD, nil); err == nil {
		t.Error("SET_LOG_FD without a descriptor was accepted")
	}
	if err := m.Send(vhostuser.SetLogFD, nil, fd); err == nil {
		t.Error("a file was accepted for signals")
	}
	a, used := m.queues[0].Addr(), m.queues[0].Driver.Used
	for _, tt := range []struct {
		flags uint32
		log   uint64
		ok    bool
	}{{1, used, true}, {1, used + 4, false}, {2, 0, false}, {0, 1 << 63, true}} {
		a.Flags, a.Log = tt.flags, tt.log
		if err := m.Send(vhostuser.SetVringAddr, a.AppendTo(nil)); (err == nil) != tt.ok {
			t.Errorf("ring flags %#x, log at %#x: %v", tt.flags, tt.log, err)
		}
	}
	m.want(t, "all of it")
}

// TestLogThatIsTooSmall: memory comes that the log has no bits for.
func TestLogThatIsTooSmall(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	if err := m.logBase(vt.MemFD(t, 4096), bits, 0); err != nil {
		t.Fatal(err)
	}
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	m.want(t, "on", "log true")
	m.AddMemory(vt.NewGuest(t, vt.Span{Addr: 3 * mib, Size: mib}))
	m.want(t, "too small", "log false", "memory 3")
	if err := m.logBase(vt.MemFD(t, 4096), 4096, 0); err != nil {
		t.Fatal(err)
	}
	m.want(t, "large enough", "log true")
}

// TestLogIsRefusedByTheDevice: it has none then.
func TestLogIsRefusedByTheDevice(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	m.rig.dev.SetFail(func(call string) error {
		if call == "log true" {
			return errors.New("no")
		}
		return nil
	})
	if err := m.logBase(vt.MemFD(t, 4096), 4096, 0); err == nil {
		t.Error("accepted")
	}
	m.want(t, "refused", "log true", "log false")
}

// TestLogSignals: SET_LOG_FD is told of, again and again.
func TestLogSignals(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, 1)
	event := Eventfd(t)
	m.MustSend(vhostuser.SetLogFD, nil, event)
	if err := m.logBase(vt.MemFD(t, 4096), 4096, 0); err != nil {
		t.Fatal(err)
	}
	m.MustSend(vhostuser.SetFeatures, Word(m.features|logAll))
	for range 2 {
		waitEvent(t, event)
	}
	m.MustSend(vhostuser.SetFeatures, Word(m.features))
	waitEvent(t, event)
}

// waitEvent waits for an eventfd and resets it.
func waitEvent(t *testing.T, fd int) {
	t.Helper()
	var b [8]byte
	for {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if _, err := unix.Read(fd, b[:]); err == nil {
			return
		}
	}
}

// TestNoLogWithoutALogger: a device that can't isn't asked to.
func TestNoLogWithoutALogger(t *testing.T) {
	t.Parallel()
	r, _, qs := started(t, 1)
	if r.MustQuery(vhostuser.GetFeatures)&logAll != 0 ||
		r.MustQuery(vhostuser.GetProtocolFeatures)&vhostuser.ProtocolLogShmFD != 0 {
		t.Error("a log is offered")
	}
	features := uint64(feats | vhostuser.FeatureProtocol | logAll)
	if err := r.Send(vhostuser.SetFeatures, Word(features)); err == nil {
		t.Error("VHOST_F_LOG_ALL was accepted")
	}
	a := qs[0].Addr()
	a.Flags, a.Log = vhostuser.VringLog, qs[0].Driver.Used
	if err := r.Send(vhostuser.SetVringAddr, a.AppendTo(nil)); err == nil {
		t.Error("a log of the ring was accepted")
	}
}

// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/inflight"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// tracking is a session with a device that keeps a record, whose features are accepted and whose
// queues are laid out but don't run yet.
type tracking struct {
	*rig
	dev    *Tracking
	queues []*Queue
}

func newTracking(tb testing.TB, g *vt.Guest, queues ...*Queue) *tracking {
	tb.Helper()
	dev := NewTracking(NewDevice(tb, len(queues)))
	m := &tracking{newRigWith(tb, dev, dev.Device, vhostuser.Options{}), dev, queues}
	offered := m.Realize(len(queues))
	if m.MustQuery(vhostuser.GetProtocolFeatures)&vhostuser.ProtocolInFlight == 0 {
		tb.Fatal("INFLIGHT_SHMFD isn't offered")
	}
	m.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	m.AddMemory(g)
	m.sync()
	m.rig.dev.Calls()
	return m
}

// guestWithQueues is a guest with two queues of eight.
func guestWithQueues(tb testing.TB) (*vt.Guest, []*Queue) {
	tb.Helper()
	g := vt.NewGuest(tb, vt.Span{Size: mib})
	return g, []*Queue{NewQueue(tb, g, 0, 8), NewQueue(tb, g, 1, 8)}
}

// get asks for a record as QEMU does, and returns what it is told and the descriptor.
func (m *tracking) get(tb testing.TB, queues, size uint16) (vhostuser.InFlight, int) {
	tb.Helper()
	v := vhostuser.InFlight{Queues: queues, QueueSize: size}
	payload, fds, err := m.QueryFDs(vhostuser.GetInFlightFD, v.AppendTo(nil))
	if err != nil || len(payload) != 24 || len(fds) != 1 {
		tb.Fatalf("GET_INFLIGHT_FD: % x, %d descriptors, %v", payload, len(fds), err)
	}
	got := DecodeInFlight(payload)
	if got.Queues != queues || got.QueueSize != size || got.Offset != 0 {
		tb.Errorf("GET_INFLIGHT_FD of %d times %d = %+v", queues, size, got)
	}
	return got, fds[0]
}

func (m *tracking) set(v vhostuser.InFlight, fds ...int) error {
	return m.Send(vhostuser.SetInFlightFD, v.AppendTo(nil), fds...)
}

// TestRecordGoesFromDeviceToDevice: what one session's device notes the next one's finds, by way of
// the front end.
func TestRecordGoesFromDeviceToDevice(t *testing.T) {
	t.Parallel()
	g, queues := guestWithQueues(t)
	m := newTracking(t, g, queues...)
	v, fd := m.get(t, 2, 8)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint64(st.Size) != v.Size {
		t.Errorf("a file of %d bytes for %+v, %v", st.Size, v, err)
	}
	if err := unix.Ftruncate(fd, 0); err == nil {
		t.Error("the front end can cut the record short")
	}
	m.want(t, "asked for")
	if err := m.set(v, fd); err != nil {
		t.Fatal(err)
	}
	m.want(t, "given", "record true")
	m.Start(m.queues...)
	m.rig.dev.Calls()
	m.dev.Record(1, func(q *inflight.Queue) {
		if _, fresh, err := q.Recover(0); !fresh || err != nil {
			t.Errorf("a record that was never used: %v, %v", fresh, err)
		}
		for _, head := range []uint16{6, 1, 3} {
			q.Take(head)
		}
		q.Returning(1)
		q.Returned(1)
	})
	_ = m.Sock.Close() // the back end dies; what it knew is gone
	if err := m.wait(); err != nil {
		t.Fatal(err)
	}
	last := []string{"stop 0", "stop 1", "record false", "reset", "memory 0"}
	if calls := m.rig.dev.Calls(); !slices.Equal(calls, last) {
		t.Errorf("in the end: %q", calls)
	}

	other := newTracking(t, g, queues...)
	if err := other.set(v, fd); err != nil {
		t.Fatal(err)
	}
	other.Start(other.queues...)
	other.dev.Record(1, func(q *inflight.Queue) {
		heads, fresh, err := q.Recover(1)
		if fresh || err != nil || !slices.Equal(heads, []uint16{6, 3}) {
			t.Errorf("recovered %v, %v, %v", heads, fresh, err)
		}
	})
}

// TestInFlightIsChecked: what a hostile front end may ask for and give back.
func TestInFlightIsChecked(t *testing.T) {
	t.Parallel()
	g, queues := guestWithQueues(t)
	m := newTracking(t, g, queues...)
	for _, v := range []vhostuser.InFlight{
		{}, {Queues: 2}, {QueueSize: 8}, {Queues: 3, QueueSize: 8}, {Queues: 2, QueueSize: 7},
		{Queues: 65535, QueueSize: 65535}, {Queues: 1, QueueSize: 65535},
	} {
		b, fds, err := m.QueryFDs(vhostuser.GetInFlightFD, v.AppendTo(nil))
		if len(b) != 0 || len(fds) != 0 || err != nil {
			t.Errorf("GET_INFLIGHT_FD %+v = % x, %v, %v", v, b, fds, err)
		}
	}
	short, fds, err := m.QueryFDs(vhostuser.GetInFlightFD,
		vhostuser.InFlight{Queues: 1, QueueSize: 8}.AppendTo(nil)[:20])
	if len(short) != 20 || len(fds) != 1 || err != nil {
		t.Errorf("GET_INFLIGHT_FD of 20 bytes = % x, %v, %v", short, fds, err)
	}
	good, fd := m.get(t, 2, 8)
	for _, tt := range []struct {
		name   string
		change func(*vhostuser.InFlight)
		fds    []int
	}{
		{"no descriptor", func(*vhostuser.InFlight) {}, nil},
		{"two", func(*vhostuser.InFlight) {}, []int{fd, fd}},
		{"an eventfd", func(*vhostuser.InFlight) {}, []int{Eventfd(t)}},
		{"a shorter file", func(*vhostuser.InFlight) {}, []int{vt.MemFD(t, good.Size-1)}},
		{"too short", func(v *vhostuser.InFlight) { v.Size-- }, []int{fd}},
		{"empty", func(v *vhostuser.InFlight) { v.Size = 0 }, []int{fd}},
		{"larger queues", func(v *vhostuser.InFlight) { v.QueueSize = 1024 }, []int{fd}},
		{"more queues", func(v *vhostuser.InFlight) { v.Queues = 3 }, []int{fd}},
		{"no queues", func(v *vhostuser.InFlight) { v.Queues = 0 }, []int{fd}},
		{"offset", func(v *vhostuser.InFlight) { v.Offset = 4096 }, []int{fd}},
		{"offset inside a page", func(v *vhostuser.InFlight) { v.Offset = 8 }, []int{fd}},
		{"all ones", func(v *vhostuser.InFlight) {
			*v = vhostuser.InFlight{Size: 1<<64 - 1, Offset: 1<<64 - 1, Queues: 1<<16 - 1,
				QueueSize: 1<<16 - 1}
		}, []int{fd}},
	} {
		v := good
		tt.change(&v)
		if err := m.set(v, tt.fds...); err == nil {
			t.Errorf("%s was accepted", tt.name)
		}
	}
	m.want(t, "all of it")
	v, small := m.get(t, 2, 4)
	if err := m.set(v, small); err != nil {
		t.Fatal(err)
	}
	q := m.queues[0]
	m.MustSend(vhostuser.SetVringNum, State(0, 8))
	m.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	m.MustSend(vhostuser.SetVringKick, Word(0), q.Kick)
	if err := m.Send(vhostuser.SetVringEnable, State(0, 1)); err == nil {
		t.Error("a queue of 8 runs with a record for 4")
	}
	m.MustSend(vhostuser.SetVringEnable, State(0, 0))
	if err := m.set(good, fd); err != nil {
		t.Error(err)
	}
	m.Start(m.queues...)
	if err := m.set(good, fd); err == nil {
		t.Error("the record was changed while queues ran")
	}
	m.want(t, "another", "record true", "record true", "start 0 base 0", "start 1 base 0",
		"call 0 true", "call 1 true")
	m.MustSend(vhostuser.ResetDevice, nil)
	m.want(t, "reset", "stop 0", "stop 1", "record false", "reset")
}

// TestRecordIsRefusedByTheDevice: it has none then.
func TestRecordIsRefusedByTheDevice(t *testing.T) {
	t.Parallel()
	g, queues := guestWithQueues(t)
	m := newTracking(t, g, queues...)
	v, fd := m.get(t, 1, 8)
	if err := m.set(v, fd); err != nil {
		t.Fatal(err)
	}
	m.rig.dev.SetFail(func(call string) error {
		if call == "record true" {
			return errors.New("no")
		}
		return nil
	})
	if err := m.set(v, fd); err == nil {
		t.Error("accepted")
	}
	m.want(t, "refused", "record true", "record true", "record false")
	m.dev.Record(0, func(q *inflight.Queue) {
		if q != nil {
			t.Error("the device has a record still")
		}
	})
}

// TestNoRecordWithoutATracker: a device that keeps none isn't asked to.
func TestNoRecordWithoutATracker(t *testing.T) {
	t.Parallel()
	r, _, _ := started(t, 1)
	if r.MustQuery(vhostuser.GetProtocolFeatures)&vhostuser.ProtocolInFlight != 0 {
		t.Error("INFLIGHT_SHMFD is offered")
	}
	v := vhostuser.InFlight{Queues: 1, QueueSize: 8}
	b, fds, err := r.QueryFDs(vhostuser.GetInFlightFD, v.AppendTo(nil))
	if len(b) != 0 || len(fds) != 0 || err != nil {
		t.Errorf("GET_INFLIGHT_FD = % x, %v, %v", b, fds, err)
	}
	if err := r.Send(vhostuser.SetInFlightFD, v.AppendTo(nil), vt.MemFD(t, 4096)); err == nil {
		t.Error("SET_INFLIGHT_FD was accepted")
	}
}

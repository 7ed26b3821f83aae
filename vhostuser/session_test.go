// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const mib = 1 << 20

// rig is a session between a front end and a device.
type rig struct {
	*Frontend
	dev  *Device
	s    *vhostuser.Session
	done chan error
}

func newRig(tb testing.TB, queues int, opts vhostuser.Options) *rig {
	tb.Helper()
	dev := NewDevice(tb, queues)
	return newRigWith(tb, dev, dev, opts)
}

// newRigWith serves any device; dev is the recorder behind it, or nil.
func newRigWith(tb testing.TB, d vhostuser.Device, dev *Device, opts vhostuser.Options) *rig {
	tb.Helper()
	front, back := Pair(tb)
	s, err := vhostuser.New(back, d, opts)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{NewFrontend(tb, front), dev, s, make(chan error, 1)}
	go func() { r.done <- s.Run(context.Background()) }()
	tb.Cleanup(func() {
		_ = r.Conn.Close()
		if err, ok := <-r.done; ok && err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	return r
}

// wait waits for Run's result, which the cleanup won't judge then.
func (r *rig) wait() error {
	err := <-r.done
	close(r.done)
	return err
}

// sync makes sure that all messages sent so far have been served.
func (r *rig) sync() { r.MustQuery(vhostuser.GetFeatures) }

// want compares the calls of the device since the last time.
func (r *rig) want(tb testing.TB, what string, calls ...string) {
	tb.Helper()
	r.sync()
	if got := r.dev.Calls(); !slices.Equal(got, calls) {
		tb.Errorf("%s: calls %q, want %q", what, got, calls)
	}
}

// feats is what a modern driver accepts.
const feats = vhostuser.FeatureVersion1 | vhostuser.FeatureEventIdx | vhostuser.FeatureIndirect

// started brings a session to where QEMU has it when the driver runs.
func started(tb testing.TB, queues int) (*rig, *vt.Guest, []*Queue) {
	tb.Helper()
	r := newRig(tb, queues, vhostuser.Options{})
	offered := r.Realize(queues)
	r.MustSend(vhostuser.SetFeatures, Word(offered))
	g := vt.NewGuest(tb, vt.Span{Addr: 0, Size: mib}, vt.Span{Addr: 0x100000000, Size: mib})
	r.AddMemory(g)
	var qs []*Queue
	for i := range queues {
		qs = append(qs, NewQueue(tb, g, i, 8))
	}
	r.Start(qs...)
	return r, g, qs
}

func TestQEMULifecycle(t *testing.T) {
	t.Parallel()
	r, g, qs := started(t, 2)
	r.want(t, "start", "features 0x130000000", "memory 1", "memory 2",
		"start 0 base 0", "start 1 base 0", "call 0 true", "call 1 true")
	q, ok := r.dev.Running(1)
	d := qs[1].Driver
	if !ok || q.Desc != d.Desc || q.Avail != d.Avail || q.Used != d.Used || q.Size != 8 ||
		!q.EventIdx() || !q.Indirect() || q.Kick == nil || q.Err == nil {
		t.Errorf("queue 1 is %+v", q)
	}

	// Pause and resume: the base survives.
	r.dev.Consume(1, 5)
	r.Stop(qs...)
	r.want(t, "stop", "stop 0", "stop 1")
	if qs[0].Base != 0 || qs[1].Base != 5 {
		t.Errorf("bases %d and %d, want 0 and 5", qs[0].Base, qs[1].Base)
	}
	r.MustSend(vhostuser.SetFeatures, Word(feats|vhostuser.FeatureProtocol))
	r.Start(qs...)
	r.want(t, "resume", "features 0x130000000", "start 0 base 0", "start 1 base 5", "call 0 true",
		"call 1 true")

	// Adding memory goes by without a stop; removing it doesn't.
	extra := vt.NewGuest(t, vt.Span{Addr: 0x200000000, Size: mib})
	region := Regions(extra)[0]
	r.AddMemory(extra)
	r.want(t, "add", "memory 3")
	r.MustSend(vhostuser.RemMemReg, vhostuser.AppendRegion(Word(0), region))
	r.want(t, "remove", "stop 0", "stop 1", "memory 2", "start 0 base 0", "start 1 base 5")
	r.SetMemory(g)
	r.want(t, "table", "stop 0", "stop 1", "memory 2", "start 0 base 0", "start 1 base 5")

	if err := r.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.wait(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if got, want := r.dev.Calls(),
		[]string{"stop 0", "stop 1", "reset", "memory 0"}; !slices.Equal(got, want) {
		t.Errorf("end: calls %q, want %q", got, want)
	}
}

// User Mode Linux: no REPLY_ACK wait for SET_OWNER, memory as a table before the rings, user
// addresses that are guest-physical ones, a log address of all ones, a pipe as channel, and the
// memory begins above the kernel.
func TestUMLOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, vhostuser.Options{})
	r.MustSend(vhostuser.SetOwner, nil)
	r.MustQuery(vhostuser.GetFeatures)
	r.MustQuery(vhostuser.GetProtocolFeatures)
	r.NeedReply = true
	r.MustSend(vhostuser.SetProtocolFeatures, Word(vhostuser.ProtocolReplyAck|
		vhostuser.ProtocolBackendReq|vhostuser.ProtocolConfig))
	pipe := newPipe(t)
	r.MustSend(vhostuser.SetBackendReqFD, nil, pipe[1])
	for n := uint32(1); n < 40; n++ {
		b, err := r.Config(n)
		if err != nil || len(b) != int(n) ||
			!strings.HasPrefix(r.dev.Config()+strings.Repeat("\x00", 99), string(b)) {
			t.Fatalf("GET_CONFIG of %d bytes: %q, %v", n, b, err)
		}
	}
	r.dev.Calls()
	r.MustSend(vhostuser.SetFeatures, Word(feats|vhostuser.FeatureProtocol))
	g := vt.NewGuest(t, vt.Span{Addr: 0x600000, Size: mib})
	region := vhostuser.Region{GuestAddr: 0x600000, UserAddr: 0x600000, Size: mib - 0x3000,
		MmapOffset: 0x3000}
	r.MustSend(vhostuser.SetMemTable, vhostuser.AppendMemTable(nil, []vhostuser.Region{region}),
		g.FDs[0])
	for i := range uint32(2) {
		q := NewQueue(t, g, int(i), 256)
		call := newPipe(t)
		d := q.Driver
		r.MustSend(vhostuser.SetVringCall, Word(uint64(i)), call[1])
		r.MustSend(vhostuser.SetVringNum, State(i, 256))
		r.MustSend(vhostuser.SetVringBase, State(i, 0))
		addr := vhostuser.VringAddr{Index: i, Desc: d.Desc, Used: d.Used, Avail: d.Avail,
			Log: ^uint64(0)}
		r.MustSend(vhostuser.SetVringAddr, addr.AppendTo(nil))
		r.MustSend(vhostuser.SetVringKick, Word(uint64(i)), q.Kick)
		r.MustSend(vhostuser.SetVringEnable, State(i, 1))
	}
	r.want(t, "start", "features 0x130000000", "memory 1", "start 0 base 0", "start 1 base 0")

	if err := r.s.ConfigChanged(); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, pipe[0], "02 00 00 00 01 00 00 00 00 00 00 00")
}

// Without VHOST_USER_F_PROTOCOL_FEATURES a ring runs from the kick message on.
func TestRingsStartEnabled(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, vhostuser.Options{})
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib})
	q := NewQueue(t, g, 0, 8)
	r.SetMemory(g)
	r.MustSend(vhostuser.SetFeatures, Word(feats))
	r.MustSend(vhostuser.SetVringNum, State(0, 8))
	r.MustSend(vhostuser.SetVringBase, State(0, 7))
	r.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	r.want(t, "before the kick", "memory 1", "features 0x130000000")
	r.MustSend(vhostuser.SetVringKick, Word(0), q.Kick)
	r.want(t, "kick", "start 0 base 7")
	r.MustSend(vhostuser.SetVringEnable, State(0, 0))
	r.want(t, "disable", "stop 0")
	r.MustSend(vhostuser.SetVringEnable, State(0, 1))
	r.want(t, "enable", "start 0 base 7")
}

// A ring starts when the last of what it needs arrives, whichever that is.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	steps := []func(*rig, *vt.Guest, *Queue){
		func(r *rig, g *vt.Guest, _ *Queue) { r.SetMemory(g) },
		func(r *rig, _ *vt.Guest, _ *Queue) { r.MustSend(vhostuser.SetVringNum, State(0, 8)) },
		func(r *rig, _ *vt.Guest, q *Queue) {
			r.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
		},
		func(r *rig, _ *vt.Guest, q *Queue) { r.MustSend(vhostuser.SetVringKick, Word(0), q.Kick) },
		func(r *rig, _ *vt.Guest, _ *Queue) { r.MustSend(vhostuser.SetVringEnable, State(0, 1)) },
		func(r *rig, _ *vt.Guest, _ *Queue) {
			r.MustSend(vhostuser.SetFeatures, Word(feats|vhostuser.FeatureProtocol))
		},
	}
	permute(len(steps), func(order []int) {
		r := newRig(t, 1, vhostuser.Options{})
		g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib})
		q := NewQueue(t, g, 0, 8)
		for _, i := range order {
			if _, ok := r.dev.Running(0); ok {
				t.Fatalf("order %v: the queue runs too early", order)
			}
			steps[i](r, g, q)
			r.sync()
		}
		if _, ok := r.dev.Running(0); !ok {
			t.Fatalf("order %v: the queue doesn't run", order)
		}
		_ = r.Conn.Close()
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
		_ = g.Mem.Close()
	})
}

// permute calls f with every order of n things, or with the rotations of a short test.
func permute(n int, f func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var rec func(k int)
	rec = func(k int) {
		if k == n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			rec(k + 1)
			order[k], order[i] = order[i], order[k]
			if testing.Short() && k > 1 {
				break
			}
		}
	}
	rec(0)
}

func TestResetDeviceAndOwner(t *testing.T) {
	t.Parallel()
	r, _, qs := started(t, 2)
	r.sync()
	r.dev.Calls()
	r.MustSend(vhostuser.ResetOwner, nil)
	r.want(t, "reset owner", "stop 0", "stop 1")
	r.Start(qs...)
	r.sync()
	r.dev.Calls()
	r.MustSend(vhostuser.ResetDevice, nil)
	r.want(t, "reset device", "stop 0", "stop 1", "reset")
	r.MustSend(vhostuser.SetFeatures, Word(feats|vhostuser.FeatureProtocol))
	r.Start(qs...)
	r.want(t, "start again", "features 0x130000000",
		"start 0 base 0", "start 1 base 0", "call 0 true", "call 1 true")
}

func TestKickAndCallChangeWhileRunning(t *testing.T) {
	t.Parallel()
	r, _, _ := started(t, 1)
	r.sync()
	r.dev.Calls()
	r.dev.Consume(0, 3)
	r.MustSend(vhostuser.SetVringCall, Word(0|NoFD))
	r.MustSend(vhostuser.SetVringCall, Word(0), Eventfd(t))
	r.MustSend(vhostuser.SetVringKick, Word(0), Eventfd(t))
	r.want(t, "change", "call 0 false", "call 0 true", "stop 0", "start 0 base 3")
	r.MustSend(vhostuser.SetVringKick, Word(0|NoFD))
	r.want(t, "poll", "stop 0", "start 0 base 3")
	if q, _ := r.dev.Running(0); q.Kick != nil {
		t.Error("the queue has a kick descriptor, want none")
	}
}

// A panic of the device is refused and survived.
func TestDevicePanics(t *testing.T) {
	t.Parallel()
	r, g, qs := started(t, 2)
	r.sync()
	for _, tt := range []struct {
		call string
		do   func() error
	}{
		{"memory", func() error {
			return r.Send(vhostuser.SetMemTable, vhostuser.AppendMemTable(nil, Regions(g)),
				g.FDs...)
		}},
		{"stop 0", func() error {
			err := r.Send(vhostuser.SetVringEnable, State(0, 0))
			r.MustSend(vhostuser.SetVringEnable, State(0, 1))
			return err
		}},
		{"call", func() error { return r.Send(vhostuser.SetVringCall, Word(0), qs[0].Call) }},
		{"write config", func() error {
			return r.Send(vhostuser.SetConfig,
				vhostuser.ConfigAccess{Data: []byte("x")}.AppendTo(nil))
		}},
	} {
		before := r.s.Panics()
		r.dev.SetFail(func(call string) error {
			if strings.HasPrefix(call, tt.call) {
				r.dev.SetFailLocked(nil)
				panic("boom")
			}
			return nil
		})
		err := tt.do()
		if err == nil || r.s.Panics() == before {
			t.Errorf("%s: error %v after %d panics", tt.call, err, r.s.Panics()-before)
		}
	}
	r.sync()
	for i := range qs {
		if _, ok := r.dev.Running(i); !ok {
			t.Errorf("queue %d doesn't run any more", i)
		}
	}
}

func TestNotSharedMemory(t *testing.T) {
	t.Parallel()
	var log logBuffer
	r := newRig(t, 1, vhostuser.Options{Log: newLogger(&log)})
	r.MustSend(vhostuser.SetFeatures, Word(r.Realize(1)))
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib})
	q := NewQueue(t, g, 0, 8)
	r.MustSend(vhostuser.SetVringNum, State(0, 8))
	r.MustSend(vhostuser.SetVringAddr, q.Addr().AppendTo(nil))
	r.MustSend(vhostuser.SetVringKick, Word(0), q.Kick)
	if err := r.Send(vhostuser.SetVringEnable, State(0, 1)); err == nil {
		t.Error("a ring without memory was enabled")
	}
	r.sync()
	if got := log.String(); !strings.Contains(got, "share=on") {
		t.Errorf("the log doesn't name the fix: %s", got)
	}
	r.AddMemory(g)
	r.sync()
	if _, ok := r.dev.Running(0); !ok {
		t.Error("the ring doesn't run after memory came")
	}
	if got := log.String(); !strings.Contains(got, "nothing was ever written") {
		t.Errorf("the log doesn't say that the memory is blank: %s", got)
	}
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	_, back := Pair(t)
	s, err := vhostuser.New(back, NewDevice(t, 1), vhostuser.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
}

// The word of a reply is in the host's byte order.
func TestReplyIsNative(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, vhostuser.Options{})
	b, err := r.Query(vhostuser.GetFeatures, nil)
	if err != nil || binary.NativeEndian.Uint64(b)&vhostuser.FeatureVersion1 == 0 {
		t.Errorf("features % x, %v", b, err)
	}
}

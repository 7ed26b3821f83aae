// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, vhostuser.Options{})
	r.Realize(1)
	want := r.dev.Config()
	if b, err := r.Config(uint32(len(want))); err != nil || string(b) != want {
		t.Errorf("GET_CONFIG = %q, %v", b, err)
	}
	r.MustSend(vhostuser.SetConfig,
		vhostuser.ConfigAccess{Offset: 4, Data: []byte("CONFIG")}.AppendTo(nil))
	if got := r.dev.Config()[4:10]; got != "CONFIG" {
		t.Errorf("config %q after SET_CONFIG", got)
	}
	for _, c := range []vhostuser.ConfigAccess{{Offset: 1000},
		{Offset: ^uint32(0), Data: []byte{1}}} {
		if b, err := r.Query(vhostuser.GetConfig, c.AppendTo(nil)); err != nil || len(b) != 0 {
			t.Errorf("GET_CONFIG at %d = % x, %v, want an empty reply", c.Offset, b, err)
		}
		if err := r.Send(vhostuser.SetConfig, c.AppendTo(nil)); err == nil {
			t.Errorf("SET_CONFIG at %d was accepted", c.Offset)
		}
	}
}

func TestConfigChangedNeedsAChannel(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, vhostuser.Options{})
	if err := r.s.ConfigChanged(); !errors.Is(err, vhostuser.ErrNoChannel) {
		t.Errorf("ConfigChanged = %v, want ErrNoChannel", err)
	}
	r.Realize(1)
	pipe := newPipe(t)
	r.MustSend(vhostuser.SetBackendReqFD, nil, pipe[1])
	// A channel that nobody reads fills up, and that is no error.
	for range 1 << 14 {
		if err := r.s.ConfigChanged(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewRejects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		queues int
		bits   uint64
	}{
		{"no queue", 0, 0}, {"too many queues", 257, 0}, {"packed rings", 1, 1 << 34},
		{"dirty log", 1, 1 << 26}, {"protocol features", 1, 1 << 30},
	} {
		dev := NewDevice(t, tt.queues)
		dev.Bits = tt.bits
		_, back := Pair(t)
		if _, err := vhostuser.New(back, dev, vhostuser.Options{}); err == nil {
			t.Errorf("%s: New succeeded", tt.name)
		}
	}
}

func TestOffer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		opts vhostuser.Options
		want uint64
	}{
		{vhostuser.Options{}, 0x1_7000_0005},
		{vhostuser.Options{NoIndirect: true}, 0x1_6000_0005},
		{vhostuser.Options{NoEventIdx: true}, 0x1_5000_0005},
	} {
		dev := NewDevice(t, 3)
		dev.Bits = 5
		r := newRigWith(t, dev, dev, tt.opts)
		if got := r.MustQuery(vhostuser.GetFeatures); got != tt.want {
			t.Errorf("features %#x, want %#x", got, tt.want)
		}
		if got := r.MustQuery(vhostuser.GetProtocolFeatures); got != 0xa229 {
			t.Errorf("protocol features %#x, want 0xa229", got)
		}
		r.MustSend(vhostuser.SetProtocolFeatures, Word(0xa229))
		if n, slots := r.MustQuery(vhostuser.GetQueueNum),
			r.MustQuery(vhostuser.GetMaxMemSlots); n != 3 || slots != 509 {
			t.Errorf("%d queues and %d slots, want 3 and 509", n, slots)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"context"
	"testing"

	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// TestProgress shows a session a front end with more queues than the device, whose driver reads the
// config space and takes the device.
func TestProgress(t *testing.T) {
	near, far := vhostusertest.Pair(t)
	var steps []vhostuser.Shown
	s, err := vhostuser.New(far, vhostusertest.NewDevice(t, 2),
		vhostuser.Options{Progress: func(p vhostuser.Shown) { steps = append(steps, p) }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	f := vhostusertest.NewFrontend(t, near)
	features := f.Realize(2)
	if err := f.Send(vhostuser.SetVringCall, vhostusertest.Word(2)); err == nil {
		t.Error("a queue too many is taken")
	}
	if _, err := f.Config(8); err != nil {
		t.Fatal(err)
	}
	if err := f.Send(vhostuser.SetFeatures, vhostusertest.Word(1<<63)); err == nil {
		t.Error("features that weren't offered are taken")
	}
	f.MustSend(vhostuser.SetFeatures, vhostusertest.Word(features&^vhostuser.FeatureLogAll))
	// Memory that its guest has never written to, as of a QEMU that doesn't share the guest's.
	guest := virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 1 << 20})
	f.SetMemory(guest)
	f.Start(vhostusertest.NewQueue(t, guest, 0, 64))
	_ = near.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	const p = vhostuser.ProtocolFeatures
	want := []vhostuser.Shown{
		{Protocol: p, Chosen: true}, {Protocol: p, Chosen: true, Queues: 1},
		{Protocol: p, Chosen: true, Queues: 2},
		{Protocol: p, Chosen: true, Queues: 3}, {Protocol: p, Chosen: true, Queues: 3, Read: true},
		{Protocol: p, Chosen: true, Queues: 3, Read: true, Driver: true},
		{Protocol: p, Chosen: true, Queues: 3, Read: true, Driver: true, Unshared: true},
	}
	if len(steps) != len(want) {
		t.Fatalf("%+v, not %+v", steps, want)
	}
	for i := range want {
		if steps[i] != want[i] {
			t.Errorf("step %d: %+v, not %+v", i, steps[i], want[i])
		}
	}
}

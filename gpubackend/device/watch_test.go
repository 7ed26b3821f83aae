// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// settingsAt reads the settings behind the response of the request at an offset.
func (v *vm) settingsAt(at uint64) (s wire.Settings) {
	s.Decode(v.guest.Read(v.request+at+64+wire.ControlResponseSize, wire.SettingsSize))
	return s
}

// TestSettingsComeWithHello: the driver is told what the VM's owner has set with the first answer.
func TestSettingsComeWithHello(t *testing.T) {
	v := newVM(t, &stubs{}, limits, "spin-guest=7us")
	v.hello()
	if s := v.settingsAt(0); s.SpinGuestUs != 7 || s.Channels != 3 || s.ArenaBytes != 2<<20 {
		t.Errorf("settings of HELLO: %+v", s)
	}
}

// TestSettingsAreAwaited: SETTINGS is answered when something is set, and not before.
func TestSettingsAreAwaited(t *testing.T) {
	v := greetedVM(t, &stubs{}, limits)
	const at = 512
	known := v.settingsAt(0).Sequence
	v.post(at, wire.ControlRequest{Type: wire.ControlSettings, Number: known})
	v.hello() // other requests are answered meanwhile
	if err := v.dev.Set("spin-guest=9us"); err != nil {
		t.Fatal(err)
	}
	v.reap(0, 1)
	s := v.settingsAt(at)
	if s.SpinGuestUs != 9 || s.Sequence == known {
		t.Errorf("settings after a change: %+v", s)
	}
	v.must(wire.ControlRequest{Type: wire.ControlSettings, Number: known}) // which is out of date
	if again := v.settingsAt(0); again != s {
		t.Errorf("settings when asked again: %+v, want %+v", again, s)
	}
}

// TestSettingsRequestsDoNotPileUp: one waits at a time; the one before is answered.
func TestSettingsRequestsDoNotPileUp(t *testing.T) {
	v := greetedVM(t, &stubs{}, limits)
	r := wire.ControlRequest{Type: wire.ControlSettings, Number: v.settingsAt(0).Sequence}
	v.post(512, r)
	v.post(1024, r)
	v.reap(0, 1)
	if s := v.settingsAt(512); s.Channels != 3 {
		t.Errorf("settings of the first request: %+v", s)
	}
	v.front.Stop(v.queues[0]) // a queue that stops has nothing in flight
	v.reap(0, 1)
}

// TestStrangersGetTheirRequestsBack: what the kernel's virtiofs asks of a channel's queue before
// our driver has greeted comes back. After that such chains wait for a worker.
func TestStrangersGetTheirRequestsBack(t *testing.T) {
	v := newVM(t, &stubs{}, limits)
	init := []virtqueuetest.Desc{
		{Addr: v.events, Len: 104}, {Addr: v.events + 256, Len: 80, Flags: virtqueuetest.Write},
	}
	for range 3 {
		if _, err := v.queues[1].Driver.Add(init...); err != nil {
			t.Fatal(err)
		}
		v.kick(1)
		if written := v.written(1); written != 0 {
			t.Errorf("%d bytes are written for a stranger", written)
		}
	}
	v.hello()
	if _, err := v.queues[1].Driver.Add(init...); err != nil {
		t.Fatal(err)
	}
	v.kick(1)
	time.Sleep(50 * time.Millisecond)
	if _, _, ok := v.queues[1].Driver.Reap(); ok {
		t.Error("a chain came back although our driver has greeted")
	}
}

// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAttach(t *testing.T) {
	f := newFake(t)
	if err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d", Queues: 4},
		Options{}); err != nil {
		t.Fatal(err)
	}
	got := f.devices["paracuda0"]
	for name, want := range map[string]any{
		"driver": "vhost-user-fs-pci", "bus": "paracuda-port", "chardev": "paracuda0-socket",
		"tag": "paracuda", "num-request-queues": 3.0, "queue-size": 1024.0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
	if !f.chardevs["paracuda0-socket"] {
		t.Error("there is no chardev")
	}
}

func TestAttachReplacesADeadDevice(t *testing.T) {
	f := newFake(t)
	d := Device{Socket: "/run/d"}
	for range 3 {
		if err := Attach(context.Background(), QMP(f.socket), d, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, c := range f.commands {
		if c == "chardev-add" || strings.HasPrefix(c, "device_") {
			got = append(got, c)
		}
	}
	want := []string{"chardev-add", "device_add",
		"chardev-add", "device_del", "device_add", "chardev-add", "device_del", "device_add"}
	if !slices.Equal(got, want) {
		t.Errorf("the commands were %q, not %q", got, want)
	}
	if len(f.chardevs) != 1 || f.devices["paracuda0"]["chardev"] != "paracuda0-socket" {
		t.Errorf("chardevs %v, device %v", f.chardevs, f.devices["paracuda0"])
	}
}

// TestAttachLetsARepeatedRequestSettle: a guest that was asked more than once may still have
// requests to answer when the device is gone. Nothing is plugged in before it has.
func TestAttachLetsARepeatedRequestSettle(t *testing.T) {
	defer func(d time.Duration, s func()) { unplugAgain, settle = d, s }(unplugAgain, settle)
	unplugAgain = 5 * time.Millisecond
	for deaf, want := range []int{0, 1, 1} {
		f := newFake(t)
		f.devices["paracuda0"] = map[string]any{}
		f.deaf = deaf
		settled := 0
		settle = func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if settled++; len(f.devices) > 0 {
				t.Errorf("asked %d times: %v is plugged in", deaf+1, f.devices)
			}
		}
		err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"}, Options{})
		if err != nil || settled != want || len(f.devices) != 1 {
			t.Errorf("asked %d times: settled %d times, devices %v: %v", deaf+1, settled, f.devices,
				err)
		}
	}
}

// TestAttachKeepsADeviceThatWorks lets everything that comes before the new device fail.
func TestAttachKeepsADeviceThatWorks(t *testing.T) {
	f := newFake(t)
	d := Device{Socket: "/run/d"}
	if err := Attach(context.Background(), QMP(f.socket), d, Options{}); err != nil {
		t.Fatal(err)
	}
	there := func(why string) {
		t.Helper()
		if len(f.chardevs) != 1 || !f.chardevs["paracuda0-socket"] || len(f.devices) != 1 {
			t.Errorf("%s: chardevs %v, devices %v", why, f.chardevs, f.devices)
		}
	}
	f.refuse["chardev-add"] = "Failed to connect to '/run/d': Connection refused"
	err := Attach(context.Background(), QMP(f.socket), d, Options{})
	if err == nil || !strings.Contains(err.Error(), "is paracuda device running there?") {
		t.Errorf("no back end: %v", err)
	}
	there("no back end")
	delete(f.refuse, "chardev-add")
	f.refuse["device_del"] = "Device paracuda0 is already in the process of unplug"
	if err := Attach(context.Background(), QMP(f.socket), d, Options{}); err == nil {
		t.Error("it was attached twice")
	}
	there("no unplugging")
}

func TestAttachRemovesAStaleChardev(t *testing.T) {
	f := newFake(t)
	f.chardevs["paracuda0-socket"], f.chardevs["paracuda0-socket-2"] = true, true
	if err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"},
		Options{}); err != nil {
		t.Fatal(err)
	}
	if len(f.chardevs) != 1 {
		t.Errorf("chardevs %v", f.chardevs)
	}
}

func TestBusyQMPSocket(t *testing.T) {
	defer func(d time.Duration) { greetTime = d }(greetTime)
	greetTime = 50 * time.Millisecond
	f := newFake(t)
	f.mu.Lock()
	f.busy = true
	f.mu.Unlock()
	if err := Attach(context.Background(), QMP(f.socket), Device{}, Options{}); !errors.Is(err,
		ErrBusy) {
		t.Errorf("another program is connected: %v", err)
	}
}

func TestDetach(t *testing.T) {
	f := newFake(t)
	if err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"},
		Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Detach(context.Background(), QMP(f.socket), ""); err != nil {
		t.Fatal(err)
	}
	if len(f.devices) != 0 || len(f.chardevs) != 0 {
		t.Errorf("left: %v, %v", f.devices, f.chardevs)
	}
	err := Detach(context.Background(), QMP(f.socket), "")
	if err == nil || !strings.Contains(err.Error(), "no device of that id") {
		t.Errorf("detaching nothing: %v", err)
	}
}

func TestAttachRefusesAVMItCannotServe(t *testing.T) {
	f := newFake(t)
	f.shared = false
	if err := Attach(context.Background(), QMP(f.socket), Device{}, Options{}); !errors.Is(err,
		ErrNotShared) {
		t.Errorf("memory that is not shared: %v", err)
	}
	f.setVersion(Version{7, 1, 0})
	err := Attach(context.Background(), QMP(f.socket), Device{}, Options{})
	if err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("an old QEMU: %v", err)
	}
	if slices.Contains(f.commands, "chardev-add") {
		t.Error("it tried all the same")
	}
}

func TestAttachLeavesNothingWhenItFails(t *testing.T) {
	f := newFake(t)
	f.refuse["device_add"] = "Bus 'paracuda-port' not found"
	err := Attach(context.Background(), QMP(f.socket), Device{}, Options{})
	if err == nil || !strings.Contains(err.Error(), "pcie-root-port,id=paracuda-port") {
		t.Errorf("no port: %v", err)
	}
	if len(f.chardevs) != 0 {
		t.Errorf("left: %v", f.chardevs)
	}
	f.refuse["chardev-add"] = "Failed to connect to '/run/d': No such file or directory"
	err = Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "is paracuda device running there?") {
		t.Errorf("no back end: %v", err)
	}
}

func TestNoQEMU(t *testing.T) {
	err := Attach(context.Background(), QMP("/nowhere/qmp"), Device{}, Options{})
	if err == nil || !strings.Contains(err.Error(), "-qmp unix:/nowhere/qmp,server=on") {
		t.Errorf("no socket: %v", err)
	}
}

func TestDetachHeedsItsContext(t *testing.T) {
	f := newFake(t)
	f.stuck = true
	if err := Attach(context.Background(), QMP(f.socket), Device{}, Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.asked = cancel // cancels when the guest was asked for the device: then Detach waits
	if err := Detach(ctx, QMP(f.socket), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a guest that keeps the device: %v", err)
	}
}

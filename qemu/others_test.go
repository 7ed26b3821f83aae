// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"strings"
	"testing"
)

// give lets a fake have a device that it was started with.
func (f *fakeQEMU) give(where map[string]map[string]any, name, chardev, tag string, dead bool) {
	where[name] = map[string]any{"driver": "vhost-user-fs-pci", "tag": tag, "chardev": chardev}
	f.chardevs[chardev], f.dead[chardev] = true, dead
}

// TestAttachLooksAtOthers: devices of our kind that are dead are taken out, the user is told of
// those that live, and other devices are left.
func TestAttachLooksAtOthers(t *testing.T) {
	f := newFake(t)
	f.give(f.devices, "gpu0", "gpu", "paracuda", true)
	f.give(f.devices, "gpu1", "other", "paracuda:second", false)
	f.give(f.devices, "disk", "disk-socket", "host", true)
	f.give(f.devices, "files", "files-socket", "paracudas", true)
	f.devices["old"] = map[string]any{"driver": "vhost-user-test-device-pci", "virtio-id": 37,
		"chardev": "old-socket"}
	f.chardevs["old-socket"], f.dead["old-socket"] = true, true
	f.devices["net"] = map[string]any{"driver": "virtio-net-pci"}
	var said []string
	err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"},
		Options{Say: func(s string) { said = append(said, s) }})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(said, "\n")
	if len(said) != 3 || !strings.Contains(text, "took out the device old") ||
		!strings.Contains(text, "took out the device gpu0") ||
		!strings.Contains(text, "has another device, gpu1, whose device process runs") {
		t.Errorf("it says %q", text)
	}
	if f.devices["gpu0"] != nil || f.chardevs["gpu"] || f.devices["gpu1"] == nil ||
		f.devices["disk"] == nil || f.devices["files"] == nil ||
		f.devices["paracuda0"] == nil {
		t.Errorf("devices %v, chardevs %v", f.devices, f.chardevs)
	}
}

// TestAttachBesideADeadDevice: the user is told of one that can't be taken out.
func TestAttachBesideADeadDevice(t *testing.T) {
	f := newFake(t)
	f.give(f.anon, "device[0]", "gpu", "paracuda", true)
	f.refuse["device_del"] = "Bus 'pcie.0' does not support hotplugging"
	var said string
	if err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"},
		Options{Say: func(s string) { said += s }}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/machine/peripheral-anon/device[0]",
		"does not support hotplugging"} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, and not %q", said, want)
		}
	}
}

// TestAttachReplacesAnyChardev: the device of the same id goes with its chardev, whatever that is
// called.
func TestAttachReplacesAnyChardev(t *testing.T) {
	f := newFake(t)
	f.give(f.devices, "paracuda0", "gpu", "paracuda", true)
	if err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"},
		Options{}); err != nil {
		t.Fatal(err)
	}
	if f.chardevs["gpu"] || f.devices["paracuda0"]["chardev"] != "paracuda0-socket" {
		t.Errorf("devices %v, chardevs %v", f.devices, f.chardevs)
	}
}

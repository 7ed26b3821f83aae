// SPDX-License-Identifier: Apache-2.0

package qemu

import "fmt"

// Driver is the name of QEMU's generic vhost-user device.
const Driver = "vhost-user-test-device-pci"

// Device describes the device as QEMU is to see it. The zero value of every
// field but Socket has a sensible meaning.
type Device struct {
	Socket     string // where the back end listens
	ID         string // the device's id in QEMU; "paracuda0"
	Bus        string // the PCIe port that it sits on; Port
	VirtioID   int    // 37: stock QEMU aborts on an id it has no name for
	Queues     int    // virtqueues; 8
	QueueSize  int    // entries in each; 256
	ConfigSize int    // bytes of config space; 256
}

func (d Device) complete() Device {
	setDefault(&d.ID, "paracuda0")
	setDefault(&d.Bus, Port)
	setDefault(&d.VirtioID, 37)
	setDefault(&d.Queues, 8)
	setDefault(&d.QueueSize, 256)
	setDefault(&d.ConfigSize, 256)
	return d
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// chardev is the id of the device's chardev.
func (d Device) chardev() string { return d.ID + "-socket" }

// chardevs are the ids that its chardev may have: where the device replaces
// another, both chardevs are there for a time.
func (d Device) chardevs() []string { return []string{d.chardev(), d.chardev() + "-2"} }

// Args are the command line options that attach the device from the start.
func (d Device) Args() []string {
	d = d.complete()
	return []string{
		"-chardev", fmt.Sprintf("socket,id=%s,path=%s", d.chardev(), escape(d.Socket)),
		"-device", fmt.Sprintf(
			"%s,id=%s,bus=%s,chardev=%s,virtio-id=%d,num_vqs=%d,vq_size=%d,config_size=%d",
			Driver, d.ID, d.Bus, d.chardev(), d.VirtioID, d.Queues, d.QueueSize, d.ConfigSize),
	}
}

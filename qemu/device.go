// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Carrier is the device model of QEMU that carries the virtqueues.
type Carrier string

// The carriers. FS is the front end of a file system: it passes queues through as they are, and
// serves its configuration space itself, so a back end that has died does it no harm. Every QEMU
// has it. QEMU means Generic for testing only, and aborts when the VM is reset after its back end
// has died.
const (
	FS      Carrier = "fs"
	Generic Carrier = "generic"
)

// carriers says what QEMU calls each, and the first release in which it can be used.
var carriers = map[Carrier]struct {
	driver string
	oldest Version
}{
	FS:      {"vhost-user-fs-pci", Version{Major: 7, Minor: 2}},
	Generic: {"vhost-user-test-device-pci", Version{Major: 10, Minor: 2}},
}

// ParseCarrier reads a carrier's name.
func ParseCarrier(name string) (Carrier, error) {
	if _, ok := carriers[Carrier(name)]; !ok {
		return "", fmt.Errorf("no carrier %q: want %s or %s", name, FS, Generic)
	}
	return Carrier(name), nil
}

// Device describes the device as QEMU is to see it. Every field but Socket may be left zero.
type Device struct {
	Socket     string  // where the back end listens
	ID         string  // the device's id in QEMU; by default "paracuda0"
	Bus        string  // the PCIe port that it sits on; by default Port
	Carrier    Carrier // by default FS
	Queues     int     // virtqueues with the control queue; by default 17
	QueueSize  int     // entries in each; by default 1024, of Generic 256
	VirtioID   int     // of Generic; by default wire.VirtioIdStock: stock QEMU aborts on ours
	ConfigSize int     // of Generic: bytes of configuration space; by default wire.ConfigRoom
}

func (d Device) complete() Device {
	setDefault(&d.ID, "paracuda0")
	setDefault(&d.Bus, Port)
	setDefault(&d.Carrier, FS)
	setDefault(&d.Queues, 17)
	if d.Carrier == Generic {
		setDefault(&d.QueueSize, 256)
		setDefault(&d.VirtioID, wire.VirtioIdStock)
		setDefault(&d.ConfigSize, wire.ConfigRoom)
	}
	setDefault(&d.QueueSize, 1024)
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

// chardevs are the ids that its chardev may have: when the device replaces another, both chardevs
// exist for a time.
func (d Device) chardevs() []string { return []string{d.chardev(), d.chardev() + "-2"} }

// property is a property of a device in QEMU.
type property struct {
	name  string
	value any
}

// properties are those of the device, except its driver.
func (d Device) properties(chardev string) []property {
	p := []property{{"id", d.ID}, {"bus", d.Bus}, {"chardev", chardev}}
	if d.Carrier == Generic {
		return append(p, property{"virtio-id", d.VirtioID}, property{"num_vqs", d.Queues},
			property{"vq_size", d.QueueSize}, property{"config_size", d.ConfigSize})
	}
	return append(p, property{"tag", wire.FsTag}, property{"num-request-queues", d.Queues - 1},
		property{"queue-size", d.QueueSize})
}

func (d Device) driver() string { return carriers[d.Carrier].driver }

// arguments are those of QMP's device_add.
func (d Device) arguments(chardev string) arguments {
	a := arguments{"driver": d.driver()}
	for _, p := range d.properties(chardev) {
		a[p.name] = p.value
	}
	return a
}

// Args are the command line options that attach the device from the start.
func (d Device) Args() []string {
	d = d.complete()
	option := []string{d.driver()}
	for _, p := range d.properties(d.chardev()) {
		option = append(option, fmt.Sprintf("%s=%s", p.name, escape(fmt.Sprint(p.value))))
	}
	return []string{
		"-chardev", fmt.Sprintf("socket,id=%s,path=%s", d.chardev(), escape(d.Socket)),
		"-device", strings.Join(option, ","),
	}
}

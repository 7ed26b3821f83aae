// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/device/channels"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// startControl starts the control queue.
func (d *Device) startControl(q vhostuser.QueueConfig) error {
	mem := d.ram.Now() // only the session changes it
	if mem == nil {
		return fmt.Errorf("start queue %d: %w", wire.ControlQueue, channels.ErrNoMemory)
	}
	if err := d.serveControl(q, mem); err != nil {
		return err
	}
	d.ahead.DriverCame()
	return nil
}

// serveControl has the control queue served, which goes on in another memory when the session says
// so (moveControl).
func (d *Device) serveControl(q vhostuser.QueueConfig, mem *guestmem.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	late := d.late.For(q.Base)
	record, again := queues.ControlRecord(q, mem, d.config.Remains, d.log)
	c, greeted, err := control.New(d.requests(), mem, q, late, record)
	if err != nil {
		return err
	}
	if d.channels.Expect(greeted); greeted && again && d.config.Greeted != nil {
		d.config.Greeted()
	}
	d.control, d.late = c, nil
	return nil
}

// requests are what the control queue needs.
func (d *Device) requests() control.Device {
	return control.Device{
		Greet: d.greet, OpenChannel: d.opening.Open,
		CloseChannel: func(channel int) uint32 {
			d.channels.Close(channel)
			return wire.StatusOk
		},
		ExportObject: d.objects.Export, ImportObject: d.objects.Import, Exports: d.exports,
		Channels: uint32(d.channels.Len()), Version: d.config.Version,
		Generation: d.generation, Told: d.settings.Told, Parked: &d.parked,
		Exit: d.config.Timeouts.Exit, Guard: d.guard, Log: d.log,
	}
}

// greet says that our driver has greeted.
func (d *Device) greet() {
	d.channels.Greet()
	d.tellUnused()
	if d.config.Greeted != nil {
		d.config.Greeted()
	}
}

// moveControl moves the control queue to other memory, if it runs.
func (d *Device) moveControl(mem *guestmem.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.control == nil {
		return nil
	}
	return d.control.SetMemory(mem)
}

// stopControl stops the control queue. It waits without the lock, as the queue's goroutine may need
// it.
func (d *Device) stopControl() (uint16, error) {
	d.mu.Lock()
	c := d.control
	d.control = nil
	d.mu.Unlock()
	if c == nil {
		return 0, channels.ErrNotRunning
	}
	base, late := c.Stop()
	if late.Nothing() {
		d.config.Remains.Drop(remains.Control)
	}
	d.mu.Lock()
	d.late = late
	d.mu.Unlock()
	return base, nil
}

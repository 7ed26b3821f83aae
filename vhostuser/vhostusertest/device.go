// SPDX-License-Identifier: Apache-2.0

package vhostusertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Device is a device that only checks. It fails the test when the session breaks a promise of the
// Device interface.
type Device struct {
	Queues int    // not to be changed once there is a session
	Bits   uint64 // device features; the same

	tb testing.TB

	mu      sync.Mutex // guards what follows
	config  []byte
	fail    func(call string) error
	calls   []string
	mem     *guestmem.Memory
	regions int
	running map[int]vhostuser.QueueConfig
	base    map[int]uint16
	feats   uint64
}

// NewDevice makes a device.
func NewDevice(tb testing.TB, queues int) *Device {
	return &Device{
		Queues: queues, tb: tb, config: []byte("the config space of a device"),
		running: map[int]vhostuser.QueueConfig{}, base: map[int]uint16{},
	}
}

// TB is the test that it belongs to.
func (d *Device) TB() testing.TB { return d.tb }

var _ vhostuser.Device = (*Device)(nil)

// note records a call, and asks fail.
func (d *Device) note(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	d.calls = append(d.calls, call)
	if d.fail != nil {
		return d.fail(call)
	}
	return nil
}

// Calls returns what was called since Calls was last called.
func (d *Device) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.calls
	d.calls = nil
	return c
}

// SetFail sets a function that is asked before each call, and can make it fail or panic.
func (d *Device) SetFail(fail func(call string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fail
}

// SetFailLocked is SetFail for the function itself, which is called with the lock held.
func (d *Device) SetFailLocked(fail func(call string) error) { d.fail = fail }

// Config returns what is in the config space.
func (d *Device) Config() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.config)
}

// Running returns with which configuration a queue was started, if it runs.
func (d *Device) Running(i int) (vhostuser.QueueConfig, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.running[i]
	return q, ok
}

// Consume makes the device claim to have taken n chains of a running queue.
func (d *Device) Consume(i int, n uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.base[i] += n
}

// Regions returns how many regions of memory the device has.
func (d *Device) Regions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.regions
}

// NumQueues implements vhostuser.Device.
func (d *Device) NumQueues() int { return d.Queues }

// Features implements vhostuser.Device.
func (d *Device) Features() uint64 { return d.Bits }

// SetFeatures implements vhostuser.Device.
func (d *Device) SetFeatures(features uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.running) > 0 {
		d.tb.Error("SetFeatures while a queue runs")
	}
	d.feats = features
	return d.note("features %#x", features)
}

// ReadConfig implements vhostuser.Device.
func (d *Device) ReadConfig(offset, size uint32) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.note("read config %d+%d", offset, size); err != nil {
		return nil, err
	}
	if uint64(offset) > uint64(len(d.config)) {
		return nil, errors.New("outside the config space")
	}
	data := d.config[offset:]
	return append([]byte(nil), data[:min(uint64(size), uint64(len(data)))]...), nil
}

// WriteConfig implements vhostuser.Device.
func (d *Device) WriteConfig(offset uint32, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.note("write config %d+%d", offset, len(data)); err != nil {
		return err
	}
	if uint64(offset)+uint64(len(data)) > uint64(len(d.config)) {
		return errors.New("outside the config space")
	}
	copy(d.config[offset:], data)
	return nil
}

// SetMemory implements vhostuser.Device. It maps the memory, to see that this works.
func (d *Device) SetMemory(mem *vhostuser.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	regions := mem.Regions()
	if len(d.running) > 0 && len(regions) < d.regions {
		d.tb.Error("memory was removed while a queue runs")
	}
	if err := d.note("memory %d", len(regions)); err != nil {
		return err
	}
	mapped, err := mem.Map()
	if err != nil {
		return err
	}
	if d.mem != nil {
		if err := d.mem.Close(); err != nil {
			d.tb.Errorf("close memory: %v", err)
		}
	}
	d.mem, d.regions = mapped, len(regions)
	return nil
}

// StartQueue implements vhostuser.Device.
func (d *Device) StartQueue(i int, q vhostuser.QueueConfig) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.running[i]; ok || i < 0 || i >= d.Queues {
		d.tb.Errorf("StartQueue(%d) of a running queue", i)
	}
	if q.Features != d.feats {
		d.tb.Errorf("StartQueue(%d) with features %#x, want %#x", i, q.Features, d.feats)
	}
	if err := d.mem.Check(q.Desc, 16*uint64(q.Size)); err != nil {
		d.tb.Errorf("StartQueue(%d): %v", i, err)
	}
	if err := d.note("start %d base %d", i, q.Base); err != nil {
		return err
	}
	d.running[i], d.base[i] = q, q.Base
	return nil
}

// SetCall implements vhostuser.Device.
func (d *Device) SetCall(i int, call *vhostuser.FD) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.running[i]
	if !ok {
		d.tb.Errorf("SetCall(%d) of a stopped queue", i)
	}
	if err := d.note("call %d %v", i, call != nil); err != nil {
		return err
	}
	q.Call = call
	d.running[i] = q
	return nil
}

// StopQueue implements vhostuser.Device.
func (d *Device) StopQueue(i int) (uint16, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.running[i]; !ok {
		d.tb.Errorf("StopQueue(%d) of a stopped queue", i)
	}
	delete(d.running, i)
	return d.base[i], d.note("stop %d", i)
}

// Abandon implements vhostuser.Device.
func (d *Device) Abandon() {}

// Reset implements vhostuser.Device.
func (d *Device) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.running) > 0 {
		d.tb.Error("Reset while a queue runs")
	}
	d.feats = 0
	_ = d.note("reset")
}

// SPDX-License-Identifier: Apache-2.0

package vhostusertest

import (
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// Tracking is a Device that can be migrated and that keeps a record of what is in flight. It fails
// the test when the record changes while a queue runs.
type Tracking struct {
	*Migrating
	record *inflight.Region // guarded by Device.mu
}

var _ vhostuser.InFlightTracker = (*Tracking)(nil)

// NewTracking makes such a device.
func NewTracking(dev *Device) *Tracking { return &Tracking{Migrating: &Migrating{Device: dev}} }

// SetInFlight implements vhostuser.InFlightTracker.
func (d *Tracking) SetInFlight(record *inflight.Region) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.running) > 0 {
		d.tb.Error("the record changes while a queue runs")
	}
	if err := d.note("record %v", record != nil); err != nil {
		return err
	}
	d.record = record
	return nil
}

// Record calls use with the record of a queue, or nil, which is the queue's until use returns.
func (d *Tracking) Record(i int, use func(*inflight.Queue)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	use(d.record.Queue(i))
}

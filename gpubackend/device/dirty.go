// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// A front end that migrates the VM is told which pages are written to: by this process through
// Device.dirty, by the workers and the mover through logs of their own on the same bitmap.
//
// Workers mark what they hold for the GPU before they say that they have paused or stopped. One
// that ends without having said so, and a mover, may have written to any page that it had: then all
// of the guest's memory is marked, which costs the migration time, and the guest nothing.

// SetLog implements vhostuser.DirtyLogger.
func (d *Device) SetLog(log *dirtylog.Log) error {
	d.mu.Lock()
	d.dirty.Set(log)
	serving := d.channels.serving()
	d.mu.Unlock()
	message := func() (*handover.Message, []int) {
		m := &handover.Message{Kind: handover.KindLog}
		return m, m.GiveLog(log, nil)
	}
	workers.TellAll(serving, func(w *workers.Worker) error {
		m, fds := message()
		return w.Obey(m, fds, handover.KindLogged, "a process did not take the log of dirty pages")
	})
	d.movers.TellLog(message)
	return nil
}

// markAll marks the guest's memory as written to, after the end of a process that can't say what it
// has written.
func (d *Device) markAll() {
	log := d.dirty.Log()
	if log == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mapped == nil {
		return
	}
	d.log.Info("a process has ended while the VM is migrated: all of the VM's memory is sent again")
	for _, r := range d.mapped.Regions() {
		log.Mark(r.GuestAddr, r.Size)
	}
}

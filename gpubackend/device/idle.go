// SPDX-License-Identifier: Apache-2.0

package device

// A VM whose programs don't use the GPU holds none of its memory: the mover and the warm workers,
// each with a context, come with the driver or a program, and go setting idle-time after the last
// program, or the driver's start (package idle). The first program of an idle VM therefore begins
// cold.
//
// The mover keeps nothing that would be missed: what workers lend it ends with them, and guest
// memory is registered again with the next copy. It is stopped only when no worker is left, and
// stays the VM's mover until it has ended, so that the VM never has two, and whoever waits for its
// copies waits for its end.

// used says whether a program uses the GPU. Device.mu is held.
func (d *Device) used() bool { return d.accounts.Serving() || d.channels.used() }

// beginUse is called when a worker is about to begin. What it returns is called when it has, or
// can't.
func (d *Device) beginUse() (began func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle.Begin()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.idle.Began()
		d.idle.Rested(d.used())
	}
}

// endIdle gives back what an idle VM has of the GPU.
func (d *Device) endIdle() {
	d.mu.Lock()
	if !d.idle.Over(d.used()) {
		d.mu.Unlock()
		return
	}
	d.refill()
	stop := d.movers.BeginStop()
	if stop == nil {
		d.mu.Unlock()
		return
	}
	d.running.Add(1)
	d.mu.Unlock()
	defer d.running.Done()
	d.log.Debug("the VM is idle: its mover ends")
	stop()
}

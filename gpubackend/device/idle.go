// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// A VM whose programs don't use the GPU holds none of its memory: the mover and the warm workers,
// each with a context, come with the driver or a program, and go Settings.IdleTime after the last
// program, or the driver's start. The first program of an idle VM therefore begins cold.
//
// The mover keeps nothing that would be missed: what workers lend it ends with them, and guest
// memory is registered again with the next copy. It is stopped only when no worker is left, and
// stays Device.mover until it has ended, so that the VM never has two, and whoever waits for its
// copies waits for its end.

// inUse says whether a program uses the GPU, or begins to. Device.mu is held.
func (d *Device) inUse() bool {
	if d.beginning > 0 {
		return true
	}
	for w := range d.workers {
		if w.entry != noEntry {
			return true
		}
	}
	for _, c := range d.channels {
		if c.worker != nil || c.cold != nil {
			return true
		}
	}
	return false
}

// keeps says whether the VM has what its next program needs, although none runs. Device.mu is held.
func (d *Device) keeps() bool { return d.settings.IdleTime == 0 || d.lately }

// beginUse is called when a worker is about to begin, and endUse when it has, or can't.
func (d *Device) beginUse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lately = true
	d.beginning++
}

func (d *Device) endUse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beginning--
	d.rested()
}

// rested has what the VM keeps of the GPU end in time if no program uses it any more. Device.mu is
// held.
func (d *Device) rested() {
	if d.idle != nil {
		d.idle.Stop()
	}
	if d.settings.IdleTime == 0 || d.inUse() {
		return
	}
	d.idle = time.AfterFunc(d.settings.IdleTime, func() { d.guard("an idle VM", d.endIdle) })
}

// endIdle gives back what an idle VM has of the GPU.
func (d *Device) endIdle() {
	d.mu.Lock()
	if d.settings.IdleTime == 0 || d.inUse() {
		d.mu.Unlock()
		return
	}
	d.lately = false
	d.refill()
	m := d.mover
	if m == nil || m.stopping {
		d.mu.Unlock()
		return
	}
	m.stopping = true
	d.running.add(1)
	d.mu.Unlock()
	defer d.running.done()
	d.log.Debug("the VM is idle: its mover ends")
	<-m.ready
	if !m.killed.Load() {
		_ = m.conn.request(&handover.Message{Kind: handover.KindStop}, nil, handover.KindStopped,
			d.config.Timeouts.Stop)
	}
	d.endMover(m)
}

// endMover kills a mover, and waits for its end as long as a process may take for it.
//
// One that doesn't end lingers: its workers' pages are held back until it has.
func (d *Device) endMover(m *moverProcess) {
	m.kill()
	if within(d.config.Timeouts.Exit, m.exited) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if isClosed(m.exited) || slices.Contains(d.linger, m) {
		return
	}
	d.log.Error("a mover that was killed does not end: " +
		"memory of programs that end stays pinned; see the kernel's log")
	if d.mover == m {
		d.mover = nil
	}
	d.linger = append(d.linger, m)
}

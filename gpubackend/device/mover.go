// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"

	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// newMovers makes what has the VM's mover.
func (d *Device) newMovers() *movers.Movers {
	t := d.config.Timeouts
	return movers.New(movers.Config{
		Spawn: func(c *os.File) (Process, error) { return d.config.Spawn.Mover(c) },
		Go:    d.run, Unmarked: d.markAll, Ended: d.moverEnded, Log: d.log,
		Serves: d.noteMover, Over: d.config.Notes.Ended,
		Start: t.Start, Answer: t.Answer, Stop: t.Stop, Exit: t.Exit,
	})
}

// prepareMover has the mover started that a channel's worker will need, and waits for it without
// the lock: the front end's messages need the lock, and its VM stands while it waits. A program
// that arrives has no memory yet, nor a queue that runs.
func (d *Device) prepareMover(c *channel, arrives bool) error {
	for {
		m, err := d.moverFor(c, arrives)
		if m == nil || err != nil {
			return err
		}
		if again, err := d.movers.Await(m); !again {
			return err
		}
	}
}

// moverFor returns the mover, which it starts if there is none; nil for a channel that no worker is
// to be started for.
func (d *Device) moverFor(c *channel, arrives bool) (*movers.Mover, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !arrives && (!c.queue.Runs() || d.mapped == nil) || c.worker != nil {
		return nil, nil
	}
	return d.movers.Need(d.moverStart)
}

// moverStart is what a mover needs, and the files of it. Device.mu is held.
func (d *Device) moverStart() (*handover.Message, []int) {
	policy := d.settings.Now().Policy
	start := &handover.Message{Kind: handover.KindStart, GPU: d.config.GPU, Policy: &policy}
	fds := d.accounts.PassMover(start, start.GiveLog(d.dirty.Log(), nil))
	return d.giveMemory(start, fds)
}

// moverEnded gives back what waited for the end of a mover.
func (d *Device) moverEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.movers.Current() == nil { // another one's memory isn't told from this one's
		d.accounts.MoverEnded()
	}
	for _, c := range d.channels {
		if c.owed {
			d.reclaim(c)
		}
	}
}

// awaitLinger waits until no mover lingers. It gives up Device.mu meanwhile.
func (d *Device) awaitLinger() {
	for ends := d.movers.Lingering(); len(ends) > 0; ends = d.movers.Lingering() {
		d.mu.Unlock()
		d.park(ends[0])
		d.mu.Lock()
	}
}

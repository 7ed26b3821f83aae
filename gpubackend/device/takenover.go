// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/roster"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// A device process that was killed leaves its workers and its mover to the next one (package
// takeover). They have gone on meanwhile: a program's commands need no device process. The next one
// asks each where it stands, and then they are its own. Until a worker has said so it is one that
// starts.

// takeOver goes on with what the device process before this one left, before there is a front end.
func (d *Device) takeOver(left takeover.Left) {
	d.suspension.TakeOver(d.config.Suspended, len(left.Workers))
	d.config.Notes.TakeObjects(d.exports, d.log)
	for i := range left.Workers {
		d.adopt(&left.Workers[i])
	}
	if m := left.Mover; m != nil {
		d.movers.TakeOver(m.Proc, m.Conn)
	}
	d.exports.Rejoined()
	d.movers.EndLeft(left.Rest)
	d.accounts.DropOthers(left.Mover != nil)
}

// adopt makes a worker of the device process before this one a channel's.
func (d *Device) adopt(x *takeover.Worker) {
	c := d.channels[x.Channel]
	t := workers.Taken{Proc: x.Proc, Conn: x.Conn, State: x.State, Channel: x.Channel,
		Program: workers.Program{PID: x.PID, Name: x.Name}, Ahead: x.Ahead}
	c.base, c.serves, c.unmet, c.unasked = x.Base, true, true, true
	c.queue.TakenOver(x.State)
	w := d.workers.TakeOver(t, d.settings.Now().Policy, func(w *workers.Worker) {
		c.worker = w
		d.exports.Rejoin(&w.Offers, x.Channel)
		d.accounts.TakeOver(w, x.Entry, x.PID)
	})
	d.run("taking over a worker", func() { d.meet(c, w) })
}

// meet asks a worker that was taken over where it stands, and has it go on.
func (d *Device) meet(c *channel, w *workers.Worker) {
	defer w.Begun()
	standing, ok := w.Meet()
	if !ok {
		d.suspension.Rejoin(w, nil)
		return
	}
	d.rejoin(c, w, standing)
	if d.suspension.Rejoin(w, &suspend.Standing{Still: standing.Still, Out: standing.Out,
		Image: standing.Image}) {
		w.Tell(&handover.Message{Kind: handover.KindGoOn}, nil)
	}
}

// rejoin gives a worker its queue back, if it waits for it.
func (d *Device) rejoin(c *channel, w *workers.Worker, standing *handover.Standing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	policy := d.settings.Now().Policy
	w.Tell(&handover.Message{Kind: handover.KindPolicy, Policy: &policy}, nil)
	if c.worker != w {
		return
	}
	if c.unmet = false; standing.Paused && c.paused == nil {
		c.queue.PausedAt(w.Base())
		c.paused = closed
		if c.queue.Runs() && !c.stopping {
			d.resume(c)
		}
	}
}

// closed is a channel that is.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// goesOnBy says whether the channel's worker has the queue that starts already, or gets it as soon
// as it says that it waits for it. Device.mu is held.
func (c *channel) goesOnBy(resumed bool) bool {
	return c.unmet || resumed && c.paused == nil
}

// note has a worker that serves its channel be found by the device process after this one.
// Device.mu is held.
func (d *Device) note(c *channel, w *workers.Worker) {
	entry, _ := d.accounts.Entry(w)
	p := w.Program()
	d.config.Notes.Serves(roster.Child{Role: roster.Worker, Channel: c.index, PID: p.PID,
		Name: p.Name, Entry: entry, Base: c.base, Ahead: w.Ahead}, w.Process(), w.Conn())
}

// noteMover does the same for a mover.
func (d *Device) noteMover(p Process, conn *child.Conn) {
	d.config.Notes.Serves(roster.Child{Role: roster.Mover}, p, conn)
}

// hasOpened says whether a channel has the worker already for which it is to be opened: the device
// process before this one started it, and didn't come to answer.
func (d *Device) hasOpened(c *channel, p workers.Program) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := c.worker
	if w == nil || !c.unasked || w.Program() != p || w.Base() != c.base {
		return false
	}
	c.unasked = false
	return true
}

// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/roster"
)

// A device process that was killed leaves its workers and its mover to the next one (package
// takeover). They have gone on meanwhile: a program's commands need no device process. The next one
// asks each where it stands, and then they are its own. Until a worker has said so it is one that
// starts.

// takeOver goes on with what the device process before this one left, before there is a front end.
func (d *Device) takeOver(left takeover.Left) {
	d.takeOverFile(&left)
	d.suspension.TakeOver(d.config.Suspended, len(left.Workers))
	d.config.Notes.TakeObjects(d.exports, d.log)
	d.opening.TakeOver(left.Workers)
	if m := left.Mover; m != nil {
		d.movers.TakeOver(m.Proc, m.Conn)
		d.reach.TakenOver()
	}
	d.exports.Rejoined()
	d.movers.EndLeft(left.Rest)
	d.accounts.DropOthers(left.Mover != nil)
}

// noteWorker has a worker that serves its channel be found by the device process after this one.
func (d *Device) noteWorker(w *workers.Worker, base uint16) {
	entry, _ := d.accounts.Entry(w)
	p := w.Program()
	d.config.Notes.Serves(roster.Child{Role: roster.Worker, Channel: w.Channel(), PID: p.PID,
		Name: p.Name, Entry: entry, Base: base, Ahead: w.Ahead}, w.Process(), w.Conn())
}

// noteMover does the same for a mover.
func (d *Device) noteMover(p Process, conn *child.Conn) {
	d.config.Notes.Serves(roster.Child{Role: roster.Mover}, p, conn)
}

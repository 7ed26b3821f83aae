// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/paracuda/paracuda/gpubackend/device/takeover"

// A device process that was killed leaves its workers and its mover to the next one (package
// takeover). Meanwhile they have gone on: a program's commands need no device process. The next one
// asks each for its position, and then has it as its own. Until a worker has answered it counts as
// starting.

// takeOver goes on with what the previous device process left, before there is a front end.
func (d *Device) takeOver(before *Inherited) {
	left := before.Left
	d.infile.TakeOver(before.InFile, &left, func(w takeover.Worker) {
		d.config.Notes.Ended(w.Proc)
	})
	d.suspension.TakeOver(before.Suspended, len(left.Workers))
	if before.Suspended {
		d.exports.Hold()
	}
	d.config.Notes.TakeObjects(d.exports, d.log)
	d.opening.TakeOver(&left)
	if m := left.Mover; m != nil {
		d.movers.TakeOver(m.Proc, m.Conn)
		d.reach.TakenOver()
	}
	d.exports.Rejoined(d.saving.Has)
	d.movers.EndLeft(left.Rest)
	d.accounts.DropOthers(left.Mover != nil)
}

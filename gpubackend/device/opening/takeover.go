// SPDX-License-Identifier: Apache-2.0

package opening

import (
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// TakeOver gives channels the workers of the previous device process (package takeover), before
// there is a front end. Each is asked for its position, and then goes on. Programs whose workers
// are gone wait for cold ones, until their queues start.
func (o *Opening) TakeOver(left *takeover.Left) {
	for _, c := range left.Cold {
		o.Channels.AwaitsCold(c.Channel, c.Base, workers.Program{PID: c.PID, Name: c.Name})
	}
	for i := range left.Workers {
		x := &left.Workers[i]
		t := workers.Taken{Proc: x.Proc, Conn: x.Conn, State: x.State, Channel: x.Channel,
			Program: workers.Program{PID: x.PID, Name: x.Name}, Ahead: x.Ahead}
		w := o.Workers.TakeOver(t, o.Settings.Now().Policy, func(w *workers.Worker) {
			o.Channels.TakenOver(x.Channel, x.Base, w)
			o.Exports.Rejoin(&w.Offers, x.Channel)
			o.Shares.TakenOver(w)
			o.Accounts.TakeOver(w, x.Entry, x.PID)
			o.Mappings.TakeOver(w, x.Listener)
		})
		o.Run("taking over a worker", func() { o.meet(w) })
	}
}

// meet asks a worker that was taken over for its position, and lets it go on.
func (o *Opening) meet(w *workers.Worker) {
	defer w.Begun()
	standing, ok := w.Meet()
	if !ok {
		o.Rejoin(w, nil)
		return
	}
	policy := o.Settings.Now().Policy
	w.Tell(&handover.Message{Kind: handover.KindPolicy, Policy: &policy}, nil)
	if standing.Mover {
		o.Joins(w)
	}
	o.Channels.Rejoins(w, standing.Paused)
	goesOn := o.Rejoin(w, &suspend.Standing{Still: standing.Still, Out: standing.Out,
		Image: standing.Image, Kept: standing.Kept})
	if goesOn || !standing.Still {
		o.HandOwed(w.Channel())
	}
	if goesOn {
		w.Tell(&handover.Message{Kind: handover.KindGoOn}, nil)
	}
}

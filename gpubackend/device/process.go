// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Process is a child process.
type Process = child.Process

// Spawner starts the children of a device: this program in another role, with one end of a control
// connection.
type Spawner interface {
	Worker(control *os.File) (Process, error)
	Mover(control *os.File) (Process, error)
}

// newWorkers makes what starts the VM's workers.
func (d *Device) newWorkers() *workers.Workers {
	t := d.config.Timeouts
	return workers.New(workers.Config{
		Spawn:  func(c *os.File) (Process, error) { return d.config.Spawn.Worker(c) },
		Limits: workers.Limits{Answer: t.Answer, Stop: t.Stop, Exit: t.Exit},
		Began:  func(w *workers.Worker) { d.accounts.Began(w) },
		Said:   d.said,
		Exited: func(w *workers.Worker) {
			d.config.Notes.Ended(w.Process())
			d.accounts.Ended(w)
			d.suspension.Forget(w)
		},
		Ended: d.workerEnded, Guard: d.guard, Run: d.run, Log: d.log,
	})
}

// workerEnded takes back what a worker had that has ended.
func (d *Device) workerEnded(w *workers.Worker, err error) {
	d.exports.Ended(&w.Offers)
	if w.Channel() >= 0 {
		if !w.Conn().Quiet() {
			d.markAll()
		}
		d.tellMover() // copies that the worker started end before its pages go back to the guest
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.Channel() < 0 {
		d.warm.Lost(w, err)
	} else {
		d.takeBack(w, err)
	}
	d.idle.Rested(d.used())
}

// takeBack takes the queue of a worker that has ended.
func (d *Device) takeBack(w *workers.Worker, err error) {
	c := d.channels[w.Channel()]
	child.SayEnded(w.Log(), "worker", err, w.Killed())
	d.ended.Add(w.Counters())
	if c.worker != w { // the queue is another driver's by now
		return
	}
	c.worker, c.paused = nil, nil
	if !c.serves || d.beginCold(c, w) {
		return // who started it goes on
	}
	w.State(func(s *handover.State) { c.queue.Leave(s, d.mapped) })
	d.reclaim(c)
}

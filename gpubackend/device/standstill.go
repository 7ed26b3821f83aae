// SPDX-License-Identifier: Apache-2.0

package device

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// A front end stops queues when its VM pauses, and when it is reset: it doesn't say which. After a
// reset the guest's memory is another kernel's, so that nothing may be under way on the GPU that
// would write there; after a pause, programs are to go on. Therefore work has some time to end
// (setting stop-grace), and a worker for whose work that is too short is killed.
//
// The front end stops queue after queue, and its main loop waits for each. With the first one all
// workers are told, so that all together take no longer than one. Those whose queues aren't stopped
// after all go on soon after.

// restTime is how long after the last queue was stopped workers go on whose queues were not.
const restTime = time.Second

// pauseAll tells all workers whose queues run to pause.
func (d *Device) pauseAll() {
	if d.rest != nil {
		d.rest.Stop()
	}
	for _, c := range d.channels {
		d.beginPause(c)
	}
}

// beginPause tells a channel's worker to pause, if it has one that runs.
func (d *Device) beginPause(c *channel) {
	if !c.queue.Runs() || c.worker == nil || c.paused != nil {
		return
	}
	w, grace, paused := c.worker, d.settings.Now().Settings.StopGrace, make(chan struct{})
	c.paused = paused
	go func() {
		defer close(paused)
		stands := false
		if d.guard("a pause", func() { stands = w.Pause(d.suspension.Idle, grace) }); !stands {
			w.Kill()
			w.AwaitEnd()
		}
	}()
}

// stopChannel takes a queue from its worker, which pauses or is gone.
func (d *Device) stopChannel(c *channel) (base uint16, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !c.queue.Runs() {
		return 0, errNotRunning
	}
	c.stopping = true
	defer func() { c.stopping = false }()
	for c.worker != nil {
		d.beginPause(c)
		w, paused := c.worker, c.paused
		d.mu.Unlock()
		<-paused
		d.mu.Lock()
		if c.worker == w {
			c.queue.PausedAt(w.Base())
			break
		}
	}
	c.watch.end()
	c.watch = nil
	c.queue.Stop()
	return c.queue.Base(), nil
}

// resumeLater has the workers go on whose queues were not stopped.
func (d *Device) resumeLater() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rest == nil {
		d.rest = time.AfterFunc(restTime, func() { d.guard("going on", d.resumeRest) })
		return
	}
	d.rest.Reset(restTime)
}

func (d *Device) resumeRest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		if !c.queue.Runs() || c.worker == nil || c.paused == nil || c.stopping {
			continue
		}
		select {
		case <-c.paused:
			c.queue.PausedAt(c.worker.Base())
			d.resume(c)
		default:
			d.rest.Reset(restTime)
		}
	}
}

// resume gives the queue back to a paused worker, if it goes on where it stopped. One that was
// killed leaves it when it has ended.
func (d *Device) resume(c *channel) {
	if c.worker.Killed() {
		return
	}
	c.paused = nil
	inFlight := c.worker.InFlight(c.queue.Size())
	if c.queue.Base() != c.worker.Base() {
		c.worker.Kill()
		return
	}
	m, fds := c.queue.Message(handover.KindResume, inFlight)
	if c.bare {
		m, fds = d.giveMemory(m, fds)
		c.bare = false
	}
	c.worker.Conn().GoesOn()
	c.worker.Tell(m, fds)
}

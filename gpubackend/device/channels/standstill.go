// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// A front end stops queues when its VM pauses, and when it is reset: it doesn't say which. After a
// reset the guest's memory is another kernel's, so that nothing may be under way on the GPU that
// would write there; after a pause, programs are to go on. Therefore work has some time to end
// (Config.Grace), and a worker for whose work that is too short is killed.
//
// The front end stops queue after queue, and its main loop waits for each. With the first one all
// workers are told, so that all together take no longer than one. Those whose queues aren't stopped
// after all go on soon after.

// restTime is how long after the last queue was stopped workers go on whose queues were not.
const restTime = time.Second

// PauseAll tells all workers whose queues run to pause.
func (t *Table) PauseAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rest != nil {
		t.rest.Stop()
	}
	for _, c := range t.list {
		c.beginPause()
	}
}

// beginPause tells a channel's worker to pause, if it has one that runs.
func (c *channel) beginPause() {
	if !c.queue.Runs() || c.worker == nil || c.paused != nil {
		return
	}
	w, grace, paused := c.worker, c.config.Grace(), make(chan struct{})
	c.paused = paused
	go func() {
		defer close(paused)
		stands := false
		if c.config.Guard("a pause", func() { stands = w.Pause(c.config.Idle, grace) }); !stands {
			w.Kill()
			w.AwaitEnd()
		}
	}()
}

// ResumeLater has the workers go on whose queues were not stopped.
func (t *Table) ResumeLater() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rest == nil {
		t.rest = time.AfterFunc(restTime, func() { t.config.Guard("going on", t.resumeRest) })
		return
	}
	t.rest.Reset(restTime)
}

func (t *Table) resumeRest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.list {
		if !c.queue.Runs() || c.worker == nil || c.paused == nil || c.stopping {
			continue
		}
		select {
		case <-c.paused:
			c.queue.PausedAt(c.worker.Base())
			t.config.RAM.Use(c.resume)
		default:
			t.rest.Reset(restTime)
		}
	}
}

// resume gives the queue back to a paused worker, if it goes on where it stopped. One that was
// killed leaves it when it has ended. One that has no memory yet gets it.
func (c *channel) resume(mem *guestmem.Memory) {
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
		fds, c.bare = ram.Describe(mem, m, fds), false
	}
	c.worker.Conn().GoesOn()
	c.worker.Tell(m, fds)
}

// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// A front end stops queues when its VM pauses, and when it is reset, and doesn't say which. After a
// reset the guest's memory is another kernel's, so no work on the GPU may write there any more;
// after a pause, programs go on. So work gets some time to end (Config.Grace), and a worker whose
// work takes longer is killed.
//
// The front end stops queue after queue, and its main loop waits for each. With the first one all
// workers are told, so that all together take no longer than one. Those whose queues aren't stopped
// after all go on soon after.

// restTime is how long after the last queue was stopped the workers of other queues go on.
const restTime = time.Second

// Standstill lets all workers of a Table pause, and go on with the VM. It shares the Table's lock.
type Standstill struct {
	table *Table
	rest  *time.Timer // runs resumeRest; nil: no queue was stopped yet; guarded by Table.mu
}

// Standstill is for a VM whose queues are about to be stopped. A Table has one.
func (t *Table) Standstill() *Standstill { return &Standstill{table: t} }

// Pause tells all workers whose queues run to pause.
func (s *Standstill) Pause() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.rest != nil {
		s.rest.Stop()
	}
	for _, c := range s.table.list {
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

// ResumeLater lets workers go on later whose queues were not stopped.
func (s *Standstill) ResumeLater() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.rest == nil {
		s.rest = time.AfterFunc(restTime,
			func() { s.table.config.Guard("going on", s.resumeRest) })
		return
	}
	s.rest.Reset(restTime)
}

func (s *Standstill) resumeRest() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, c := range s.table.list {
		if !c.queue.Runs() || c.worker == nil || c.paused == nil || c.stopping {
			continue
		}
		select {
		case <-c.paused:
			c.queue.PausedAt(c.worker.Base())
			c.config.RAM.Use(c.resume)
		default:
			s.rest.Reset(restTime)
		}
	}
}

// resume gives the queue back to a paused worker, if the queue goes on where it stopped. A killed
// worker leaves it when it has ended. One that has no memory yet gets it, too.
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
		fds, c.bare = c.config.RAM.DescribeTo(c.worker.Asks(), mem, m, fds), false
	}
	c.worker.HasRings(m.Queue)
	c.worker.Conn().GoesOn()
	c.worker.Tell(m, fds)
}

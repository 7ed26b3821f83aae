// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Start starts a channel's queue. Its worker goes on, unless the queue begins elsewhere.
func (t *Table) Start(index int, q vhostuser.QueueConfig) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.config.RAM.Use(func(mem *guestmem.Memory) { err = t.list[index].start(q, mem) })
	return err
}

func (c *channel) start(q vhostuser.QueueConfig, mem *guestmem.Memory) error {
	if mem == nil {
		return queues.ErrNoMemory
	}
	moved, err := c.queue.Start(q)
	if err != nil {
		return err
	}
	c.config.Strangers.Begin(c.index, c.queue.Kicks)
	cold := c.cold
	if c.cold = nil; moved {
		cold = nil
		c.config.Saved.Forget(c.index)
	}
	switch {
	case cold != nil:
		c.beginCold(cold)
	case c.worker != nil && c.goesOnBy(q.Resumed): // it was taken over
		c.worker.HasRings(c.queue.Rings())
	case c.worker != nil:
		c.resume(mem)
	default:
		c.queue.TakeOver(q, mem)
		c.reclaim(mem) // what no worker has
	}
	return nil
}

// SetCall changes the descriptor by which a running queue signals.
func (t *Table) SetCall(index int, call *vhostuser.FD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	if !c.queue.Runs() {
		return queues.ErrNotRunning
	}
	if err := c.queue.SetCall(call); err != nil {
		return err
	}
	if c.worker == nil {
		return nil
	}
	m := &handover.Message{Kind: handover.KindCall}
	var fds []int
	if call != nil {
		m.Files.Call, fds = true, []int{call.Int()}
	}
	c.worker.Tell(m, fds)
	return nil
}

// Stop takes a queue from its worker, which pauses or is gone, and returns its position.
func (t *Table) Stop(index int) (base uint16, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	if !c.queue.Runs() {
		return 0, queues.ErrNotRunning
	}
	c.stopping = true
	defer func() { c.stopping = false }()
	for c.worker != nil {
		c.beginPause()
		w, paused := c.worker, c.paused
		t.mu.Unlock()
		<-paused
		t.mu.Lock()
		if c.worker == w {
			c.queue.PausedAt(w.Base())
			break
		}
	}
	c.config.Strangers.End(index)
	c.queue.Stop()
	return c.queue.Base(), nil
}

// Started is closed when a channel's queue starts.
func (t *Table) Started(index int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list[index].queue.Started()
}

// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// ErrNoMemory is that no queue can start.
var ErrNoMemory = errors.New("the front end has sent no memory table")

// Start starts a channel's queue. Whoever had it last goes on, unless it begins elsewhere.
func (t *Table) Start(index int, q vhostuser.QueueConfig) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.config.RAM.Use(func(mem *guestmem.Memory) { err = t.start(t.list[index], q, mem) })
	return err
}

func (t *Table) start(c *channel, q vhostuser.QueueConfig, mem *guestmem.Memory) error {
	if mem == nil {
		return ErrNoMemory
	}
	moved, err := c.queue.Start(q)
	if err != nil {
		return err
	}
	t.watchStranger(c)
	cold := c.cold
	if c.cold = nil; moved {
		cold = nil
		t.config.Saved.Forget(c.index)
	}
	switch {
	case cold != nil:
		t.beginCold(c, cold)
	case c.worker != nil && c.goesOnBy(q.Resumed): // it was taken over
	case c.worker != nil:
		c.resume(mem)
	default:
		c.queue.TakeOver(q, mem)
		t.reclaim(c, mem) // what no worker has
	}
	return nil
}

// SetCall has a queue that runs signal in another way.
func (t *Table) SetCall(index int, call *vhostuser.FD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	if !c.queue.Runs() {
		return ErrNotRunning
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

// Stop takes a queue from its worker, which pauses or is gone, and says where it stands.
func (t *Table) Stop(index int) (base uint16, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	if !c.queue.Runs() {
		return 0, ErrNotRunning
	}
	c.stopping = true
	defer func() { c.stopping = false }()
	for c.worker != nil {
		t.beginPause(c)
		w, paused := c.worker, c.paused
		t.mu.Unlock()
		<-paused
		t.mu.Lock()
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

// Started is closed when a channel's queue starts.
func (t *Table) Started(index int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list[index].queue.Started()
}

// reclaim returns every chain of a channel without a worker to the driver: those that its worker
// held, and those that it never took. Not those of a program that is in a file: its next worker has
// them. Nor while the GPU may write to their pages: then they are owed.
func (t *Table) reclaim(c *channel, mem *guestmem.Memory) (owed bool) {
	if !c.queue.Runs() || mem == nil || c.worker != nil || t.config.Saved.Has(c.index) {
		return false
	}
	if c.owed = len(t.config.Lingering()) > 0; !c.owed {
		c.queue.GiveBack(mem)
	}
	return c.owed
}

// reclaimNow is reclaim with the memory that there is.
func (t *Table) reclaimNow(c *channel) (owed bool) {
	t.config.RAM.Use(func(mem *guestmem.Memory) { owed = t.reclaim(c, mem) })
	return owed
}

// Reclaim returns a channel's chains, if nobody has it.
func (t *Table) Reclaim(index int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reclaimNow(t.list[index])
}

// GiveOwed returns what waited for the end of a mover.
func (t *Table) GiveOwed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.list {
		if c.owed {
			t.reclaimNow(c)
		}
	}
}

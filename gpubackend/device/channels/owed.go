// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"slices"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// touch is told that a channel gets a worker. Movers that linger now serve nobody who comes later:
// if no worker had the channel before, they have none of its pages.
func (c *channel) touch() {
	if !c.touched {
		c.spared, c.touched = c.config.Lingering(), true
	}
}

// lingering are the ends of movers that linger and may have a channel's pages.
func (c *channel) lingering() []<-chan struct{} {
	if !c.touched {
		return nil
	}
	return slices.DeleteFunc(c.config.Lingering(), func(end <-chan struct{}) bool {
		return slices.Contains(c.spared, end)
	})
}

// reclaim returns every chain of a channel without a worker to the driver: those that its worker
// held, and those that it never took. Those of a program in a file are not returned: its next
// worker has them. While the GPU may write to their pages they are owed.
func (c *channel) reclaim(mem *guestmem.Memory) (owed bool) {
	if !c.queue.Runs() || mem == nil || c.worker != nil || c.config.Saved.Has(c.index) {
		return false
	}
	if c.owed = len(c.lingering()) > 0; !c.owed {
		c.queue.GiveBack(mem)
		c.touched = false
	}
	return c.owed
}

// reclaimNow is reclaim with the memory that there is.
func (c *channel) reclaimNow() (owed bool) {
	c.config.RAM.Use(func(mem *guestmem.Memory) { owed = c.reclaim(mem) })
	return owed
}

// Reclaim returns a channel's chains, if nobody has it and still is true.
func (t *Table) Reclaim(index int, still func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if still() {
		t.list[index].reclaimNow()
	}
}

// GiveOwed returns what waited for the end of a mover.
func (t *Table) GiveOwed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.list {
		if c.owed {
			c.reclaimNow()
		}
	}
}

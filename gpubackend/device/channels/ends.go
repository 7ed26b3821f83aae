// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"context"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
)

// A process that hangs in the kernel, as in the GPU's driver, doesn't end when it is killed. It
// runs none of its own code any more, but the GPU may still write, for it, to pages of the guest
// that it has mapped. Therefore:
//   - the front end waits for it for Config.Exit, then its queue counts as stopped, and a change of
//     memory as made: what it has mapped stays mapped in that process;
//   - its channel stays its own, its chains aren't returned, and CLOSE isn't answered until it has
//     ended, so that the guest's pages stay pinned; for a mover this holds for all workers that are
//     gone and were there when it was killed;
//   - all else goes on, with another mover;
//   - a driver that begins anew has the channel for itself: it doesn't know of those pages.

// Close ends a channel's worker. When it returns, nothing touches the channel's pages and all its
// chains are returned.
func (t *Table) Close(index int) {
	t.mu.Lock()
	c := t.list[index]
	w := c.worker
	t.config.Saved.Forget(index)
	if c.cold = nil; w != nil {
		w.Retire()
	}
	t.mu.Unlock()
	if w != nil && !w.Stop() {
		t.config.Park(w.Gone())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.awaitLinger(c); c.reclaimNow(); {
		t.awaitLinger(c)
	}
}

// awaitLinger waits until no mover lingers that may have a channel's pages. It gives up the lock
// meanwhile.
func (t *Table) awaitLinger(c *channel) {
	for ends := c.lingering(); len(ends) > 0; ends = c.lingering() {
		t.mu.Unlock()
		t.config.Park(ends[0])
		t.mu.Lock()
	}
}

// KillAll ends all workers. None is started in their place.
func (t *Table) KillAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.list {
		t.config.Saved.Forget(c.index)
		if c.cold = nil; c.worker != nil {
			c.worker.Retire()
			c.worker.Kill()
		}
	}
}

// ForgetHeld drops what workers that are gone have held: the VM is another one now.
func (t *Table) ForgetHeld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.list {
		c.queue.Forget()
	}
}

// DriverBegins is told that the control queue begins anew, and with it a driver. All workers are an
// earlier driver's, since this one has opened nothing yet; even those whose queues run, as a front
// end may restart these before the control queue.
func (t *Table) DriverBegins() { t.forgetBefore(func(*channel) bool { return true }) }

// Begins does so for one channel, whose queue begins anew.
func (t *Table) Begins(index int) {
	t.forgetBefore(func(c *channel) bool {
		return c.index == index && c.worker != nil && c.worker.Base() != 0
	})
}

// forgetBefore ends the workers of an earlier driver, and waits for them: the pages now belong to
// another driver.
func (t *Table) forgetBefore(its func(*channel) bool) {
	var old []*workers.Worker
	t.mu.Lock()
	for _, c := range t.list {
		if its(c) {
			t.config.Saved.Forget(c.index)
			old = append(old, c.forget()...)
			c.queue.DropLeft()
		}
	}
	lingering := t.config.Lingering()
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), t.config.Exit)
	defer cancel()
	for _, w := range old {
		if !w.AwaitEnd() {
			break // the others had the same time
		}
	}
	for _, end := range lingering {
		select {
		case <-end:
		case <-ctx.Done():
		}
	}
}

// forget ends a channel's worker, if it has one, and returns it. The queue is another driver's now:
// nothing is returned to it.
func (c *channel) forget() []*workers.Worker {
	c.cold = nil
	c.touched, c.owed = false, false
	c.queue.Forget()
	w := c.worker
	if w == nil {
		return nil
	}
	w.Kill()
	c.worker, c.paused = nil, nil
	return []*workers.Worker{w}
}

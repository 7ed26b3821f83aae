// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// A process that hangs in the kernel, as in the GPU's driver, doesn't end when it is killed. It
// runs none of its own code any more, but the GPU may still write for it, to pages of the guest
// that it has mapped. Therefore:
//   - the front end waits for it for Timeouts.Exit, then its queue counts as stopped, and a change
//     of memory as made: what it has mapped stays mapped in that process;
//   - its channel stays its own, its chains aren't returned, and CLOSE isn't answered until it has
//     ended, so that the guest's pages stay pinned; for a mover this holds for all workers that are
//     gone;
//   - all else goes on, with another mover;
//   - a driver that begins anew has the channel for itself: it doesn't know of those pages.

// forgetBefore ends the workers of an earlier driver when a queue begins anew, and waits for them:
// the pages are another driver's by now. The control queue is a driver's first, before which it has
// opened no channel: a worker whose queue is stopped is that of an earlier one.
func (d *Device) forgetBefore(index int, base uint16) {
	if base != 0 {
		return
	}
	var old []*workers.Worker
	d.mu.Lock()
	for i, c := range d.channels {
		if index == wire.ControlQueue && !c.queue.Runs() ||
			index == 1+i && c.worker != nil && c.worker.Base() != 0 {
			d.saving.Forget(c.index)
			old = append(old, c.forget()...)
			c.queue.DropLeft()
		}
	}
	lingering := d.movers.Lingering()
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), d.config.Timeouts.Exit)
	defer cancel()
	for _, w := range old {
		if !w.AwaitEnd() {
			break // the others had as long
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
	c.queue.Forget()
	w := c.worker
	if w == nil {
		return nil
	}
	w.Kill()
	c.worker, c.paused = nil, nil
	return []*workers.Worker{w}
}

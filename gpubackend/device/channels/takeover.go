// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
)

// A device process that was killed leaves its workers to the next one. They have gone on meanwhile,
// with their queues. Until one has said where it stands, it is one that starts.

// TakenOver makes a worker of the device process before this one a channel's, whose queue began
// there, before there is a front end.
func (t *Table) TakenOver(index int, base uint16, w *workers.Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	c.worker, c.base, c.serves, c.unmet, c.unasked = w, base, true, true, true
	w.State(c.queue.TakenOver)
}

// Rejoins is told that a worker which was taken over has said where it stands. If it waits for its
// queue it gets it back.
func (t *Table) Rejoins(w *workers.Worker, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[w.Channel()]
	if c.worker != w {
		return
	}
	if c.unmet = false; waits && c.paused == nil {
		c.queue.PausedAt(w.Base())
		c.paused = paused
		if c.queue.Runs() && !c.stopping {
			t.config.RAM.Use(c.resume)
		}
	}
}

// Unmet says whether a worker that was taken over hasn't said yet where it stands.
func (t *Table) Unmet() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.list, func(c *channel) bool { return c.unmet })
}

// goesOnBy says whether the channel's worker has the queue that starts already, or gets it as soon
// as it says that it waits for it.
func (c *channel) goesOnBy(resumed bool) bool {
	return c.unmet || resumed && c.paused == nil
}

// HasOpened says, once, whether a channel has the worker already for which it is to be opened: the
// device process before this one started it, and didn't come to answer.
func (t *Table) HasOpened(index int, p workers.Program) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	w := c.worker
	if w == nil || !c.unasked || w.Program() != p || w.Base() != c.base {
		return false
	}
	c.unasked = false
	return true
}

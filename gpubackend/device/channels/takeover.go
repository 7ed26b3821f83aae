// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// A device process that was killed leaves its workers to the next one. Meanwhile they have gone on,
// with their queues. Until a worker has reported its position it counts as starting.

// TakenOver gives a channel a worker of the previous device process, and base, where its queue
// began there. There is no front end yet.
func (t *Table) TakenOver(index int, base uint16, w *workers.Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	c.worker, c.base, c.serves, c.unmet, c.unasked = w, base, true, true, true
	w.State(func(s *handover.State) {
		c.queue.TakenOver(s)
		c.begins = s.AskedCold()
	})
}

// AwaitsCold is told that a channel's worker ended while there was no device process, or before its
// successor was started: a cold one is to begin, where the queue began there. There is no front end
// yet.
func (t *Table) AwaitsCold(index int, base uint16, p workers.Program) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	c.queue.Rewind(base)
	c.cold = &p
}

// Rejoins is told that a worker that was taken over has reported its position. If it waits for its
// queue, it gets that back.
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

// Unmet says whether a worker that was taken over hasn't reported its position yet.
func (t *Table) Unmet() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.list, func(c *channel) bool { return c.unmet })
}

// goesOnBy says whether the channel's worker already has the queue that starts, or gets it as soon
// as it says that it waits for it.
func (c *channel) goesOnBy(resumed bool) bool {
	return c.unmet || resumed && c.paused == nil
}

// HasOpened says, once, whether the channel already has the worker for which it is being opened:
// the previous device process started it, and died before it answered.
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

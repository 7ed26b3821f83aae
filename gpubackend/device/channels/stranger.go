// SPDX-License-Identifier: Apache-2.0

package channels

import "github.com/paracuda/paracuda/vhostuser"

// stranger returns what a driver that isn't ours puts into a channel's queue. Where a file system's
// device carries the queues, the kernel's virtiofs may have the device before our driver does, and
// waits for its requests before it lets go.
type stranger struct {
	kick  *vhostuser.Waiter
	ended chan struct{}
}

// watchStranger begins with that, unless our driver has greeted.
func (t *Table) watchStranger(c *channel) {
	if t.greeted {
		return
	}
	kick, err := c.queue.Kicks()
	if err != nil {
		t.config.Log.WithError(err).Info("requests of a foreign driver stay unanswered")
		return
	}
	s := &stranger{kick: kick, ended: make(chan struct{})}
	c.watch = s
	go t.config.Guard("a foreign driver's queue", func() {
		defer close(s.ended)
		for s.kick.Wait() == nil {
			t.mu.Lock()
			if c.watch == s {
				t.reclaimNow(c)
			}
			t.mu.Unlock()
		}
	})
}

// end has it look no more, soon.
func (s *stranger) end() {
	if s != nil {
		_ = s.kick.Close()
	}
}

// Greet says that our driver has greeted. When it returns, kicks are the workers' alone.
func (t *Table) Greet() {
	t.mu.Lock()
	t.greeted = true
	var all []*stranger
	for _, c := range t.list {
		if c.watch != nil {
			c.watch.end()
			all = append(all, c.watch)
			c.watch = nil
		}
	}
	t.mu.Unlock()
	for _, s := range all {
		<-s.ended
	}
}

// Expect says whether our driver has greeted, before the channels' queues start.
func (t *Table) Expect(greeted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.greeted = greeted
}

// Greeted says whether our driver has.
func (t *Table) Greeted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.greeted
}

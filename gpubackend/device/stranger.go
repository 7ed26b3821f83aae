// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/paracuda/paracuda/vhostuser"

// stranger returns what a driver that isn't ours puts into a channel's queue. Where a file system's
// device carries the queues, the kernel's virtiofs may have the device before our driver does, and
// waits for its requests before it lets go.
type stranger struct {
	kick  *vhostuser.Waiter
	ended chan struct{}
}

// watchStranger begins with that, unless our driver has greeted. Device.mu is held.
func (d *Device) watchStranger(c *channel) {
	if d.greeted {
		return
	}
	kick, err := c.queue.Kicks()
	if err != nil {
		d.log.WithError(err).Info("requests of a foreign driver stay unanswered")
		return
	}
	s := &stranger{kick: kick, ended: make(chan struct{})}
	c.watch = s
	go d.guard("a foreign driver's queue", func() {
		defer close(s.ended)
		for s.kick.Wait() == nil {
			d.mu.Lock()
			if c.watch == s {
				d.reclaim(c)
			}
			d.mu.Unlock()
		}
	})
}

// end has it look no more, soon.
func (s *stranger) end() {
	if s != nil {
		_ = s.kick.Close()
	}
}

// greet says that our driver has greeted. When it returns, kicks are the workers' alone.
func (d *Device) greet() {
	d.mu.Lock()
	d.greeted = true
	var all []*stranger
	for _, c := range d.channels {
		if c.watch != nil {
			c.watch.end()
			all = append(all, c.watch)
			c.watch = nil
		}
	}
	d.mu.Unlock()
	for _, s := range all {
		<-s.ended
	}
	if d.config.Greeted != nil {
		d.config.Greeted()
	}
}

// SPDX-License-Identifier: Apache-2.0

package device

import (
	"sync"
	"time"
)

// crowd counts what goes on. Unlike a sync.WaitGroup it can be waited for while more begins, and
// for a while only.
type crowd struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n is 0 again; nil until the first
}

func (c *crowd) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		c.empty = make(chan struct{})
	}
	c.n += n
}

func (c *crowd) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		close(c.empty)
	}
}

// gone is closed when nothing of what goes on now does any more.
func (c *crowd) gone() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.empty == nil {
		c.empty = make(chan struct{})
		close(c.empty)
	}
	return c.empty
}

// within says whether a channel is closed before so much time has passed.
func within(t time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return isClosed(done)
	}
}

// isClosed says whether a channel is closed.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

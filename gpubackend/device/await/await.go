// SPDX-License-Identifier: Apache-2.0

// Package await has ways to wait: for a time, for activities, for the end of something.
package await

import (
	"sync"
	"time"
)

// Crowd counts activities. Unlike a sync.WaitGroup it can be waited for while more begin, and for a
// limited time.
type Crowd struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n is 0 again; nil until the first
}

// Add is called when n more begin.
func (c *Crowd) Add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		c.empty = make(chan struct{})
	}
	c.n += n
}

// Done is called when one has ended.
func (c *Crowd) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		close(c.empty)
	}
}

// Go runs f on a goroutine, and counts it.
func (c *Crowd) Go(f func()) {
	c.Add(1)
	go func() {
		defer c.Done()
		f()
	}()
}

// Gone is closed when all that goes on now has ended.
func (c *Crowd) Gone() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.empty == nil {
		c.empty = make(chan struct{})
		close(c.empty)
	}
	return c.empty
}

// Within says whether a channel is closed before so much time has passed.
func Within(t time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return Closed(done)
	}
}

// Closed says whether a channel is closed.
func Closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

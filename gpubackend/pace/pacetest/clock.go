// SPDX-License-Identifier: Apache-2.0

// Package pacetest has a clock for tests, which stands still until it is moved.
package pacetest

import (
	"slices"
	"sync"
	"time"
)

// Clock implements pace.Clock.
type Clock struct {
	mu      sync.Mutex
	changed *sync.Cond
	now     time.Time
	waiters []waiter
}

type waiter struct {
	due time.Time
	c   chan time.Time
}

// NewClock makes a clock.
func NewClock() *Clock {
	c := &Clock{now: time.Unix(1000, 0)}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Now implements pace.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After implements pace.Clock.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiter{c.now.Add(d), make(chan time.Time, 1)}
	c.waiters = append(c.waiters, w)
	c.changed.Broadcast()
	return w.c
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waiters = slices.DeleteFunc(c.waiters, func(w waiter) bool {
		if w.due.After(c.now) {
			return false
		}
		w.c <- c.now
		return true
	})
}

// AwaitWaiters waits until n goroutines wait for the clock.
func (c *Clock) AwaitWaiters(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiters) < n {
		c.changed.Wait()
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package pace bounds how often others may begin something: by a rate in the long run, with a burst
// above it. Whoever comes too early waits.
package pace

import (
	"sync"
	"time"
)

// Clock is the time, which tests can replace.
type Clock interface {
	Now() time.Time
	// After returns a channel on which something comes later.
	After(time.Duration) <-chan time.Time
}

// Real is the real clock.
var Real Clock = real{}

type real struct{}

func (real) Now() time.Time                         { return time.Now() }
func (real) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Pace is a bucket of turns. Any goroutine may use it.
type Pace struct {
	clock Clock
	burst float64

	mu    sync.Mutex
	rate  float64 // turns a second; 0: no bound
	turns float64 // that are left; negative while some wait
	last  time.Time
}

// New makes a full bucket.
func New(rate, burst float64, clock Clock) *Pace {
	return &Pace{clock: clock, burst: burst, rate: rate, turns: burst, last: clock.Now()}
}

// SetRate changes the rate for later turns.
func (p *Pace) SetRate(rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	p.rate = rate
}

func (p *Pace) fill() {
	now := p.clock.Now()
	if d := now.Sub(p.last); d > 0 {
		p.turns = min(p.burst, p.turns+p.rate*d.Seconds())
	}
	if p.rate == 0 {
		p.turns = p.burst
	}
	p.last = now
}

// Take takes a turn and returns how long it is until it comes. The caller may begin earlier, at the
// expense of later ones.
func (p *Pace) Take() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	p.turns--
	return p.until(0)
}

// Try takes a turn if there is one now. Otherwise it says when to try again.
func (p *Pace) Try() (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	if wait = p.until(1); wait > 0 {
		return wait, false
	}
	p.turns--
	return 0, true
}

// until is how long it takes until this many turns are left.
func (p *Pace) until(turns float64) time.Duration {
	if p.rate == 0 || p.turns >= turns {
		return 0
	}
	return time.Duration((turns - p.turns) / p.rate * float64(time.Second))
}

// Wait takes a turn and waits for it, or until quit is closed: then it returns false.
func (p *Pace) Wait(quit <-chan struct{}) bool {
	wait := p.Take()
	if wait == 0 {
		return true
	}
	select {
	case <-p.clock.After(wait):
		return true
	case <-quit:
		return false
	}
}

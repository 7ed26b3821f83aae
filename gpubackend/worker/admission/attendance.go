// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// attendance counts a worker's part of its VM's turns, for figures alone. While the gate is free
// there are no turns, and nothing is counted.
type attendance struct {
	waited   time.Time // a command's wait at the gate is counted up to here; zero: none waits
	turn     uint64    // in which work was begun last
	overruns uint64    // of the VM, when the work in flight was begun, or since they were counted
}

// waits counts the wait of a command at a closed gate, as long as it lasts.
func (a *attendance) waits(c *Config) {
	now := c.Now()
	if !a.waited.IsZero() {
		c.Count(handover.TurnWait, uint64(max(0, now.Sub(a.waited))))
	}
	a.waited = now
}

// admitted counts what is left of the wait when the gate lets a command through.
func (a *attendance) admitted(c *Config) {
	if !a.waited.IsZero() {
		a.waits(c)
		a.rests()
	}
}

// rests notes that no command waits.
func (a *attendance) rests() { a.waited = time.Time{} }

// begins counts the turn for which the gate is open, once, when work is begun in it.
func (a *attendance) begins(c *Config, flying bool) {
	if !flying {
		a.flies(c)
	}
	if turn := c.Gate.Turn(); turn != a.turn {
		a.turn = turn
		c.Count(handover.TurnsUsed, 1)
	}
}

// flies notes that work is in flight from now on.
func (a *attendance) flies(c *Config) { a.overruns = c.Gate.Overruns() }

// looks counts a turn that was overrun while work of this worker is in flight.
func (a *attendance) looks(c *Config) {
	if !c.Gate.InFlight() {
		return
	}
	n := c.Gate.Overruns()
	if n > a.overruns { // it is less after a new arbiter has begun to count
		c.Count(handover.TurnsOverrun, 1)
	}
	a.overruns = n
}

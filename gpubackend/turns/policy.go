// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"time"
)

// Time is a moment, counted from any fixed one. It never goes back.
type Time = time.Duration

// GPUs is a set of GPUs: bit n is GPU n.
type GPUs uint64

// Class says what matters to a VM.
type Class int

// The classes.
const (
	Batch   Class = iota // throughput: turns of full length
	Latency              // short waits: its work closes the gates of others at once
)

// Bounds of a policy.
const (
	MinWeight = 1
	MaxWeight = 10000
	MinLimit  = 1 // percent
	MaxLimit  = 100
	MinTurn   = 500 * time.Microsecond
	MaxTurn   = time.Second
)

// Defaults of a policy.
const (
	DefaultWeight = 100
	DefaultTurn   = 5 * time.Millisecond
)

// Turns whose length nobody sets are longer the fewer VMs want the GPU, as each change costs GPU
// time: so long that all have had one after Round, but from DefaultTurn to LongTurn.
const (
	LongTurn = 20 * time.Millisecond
	Round    = 80 * time.Millisecond
)

// Policy is what the operator sets for a VM. The zero value of a field is its default.
type Policy struct {
	Weight int           // its share among those that have work; DefaultWeight
	Limit  int           // percent of the time that it may hold the GPU, even if idle; MaxLimit
	Class  Class         // Batch
	Turn   time.Duration // length of its turns; from DefaultTurn to LongTurn, as others wait
}

// auto says whether the length of turns is left to the scheduler.
func (p Policy) auto() bool { return p.Turn == 0 }

func (p Policy) withDefaults() Policy {
	if p.Weight == 0 {
		p.Weight = DefaultWeight
	}
	if p.Limit == 0 {
		p.Limit = MaxLimit
	}
	if p.Turn == 0 {
		p.Turn = DefaultTurn
	}
	return p
}

// Check says what is wrong with a policy.
func (p Policy) Check() error {
	p = p.withDefaults()
	switch {
	case p.Weight < MinWeight || p.Weight > MaxWeight:
		return fmt.Errorf("weight %d: must be from %d to %d", p.Weight, MinWeight, MaxWeight)
	case p.Limit < MinLimit || p.Limit > MaxLimit:
		return fmt.Errorf("time-limit %d: must be from %d to %d percent", p.Limit, MinLimit,
			MaxLimit)
	case p.Class != Batch && p.Class != Latency:
		return fmt.Errorf("class %d: must be batch or latency", p.Class)
	case p.Turn < MinTurn || p.Turn > MaxTurn:
		return fmt.Errorf("turn %v: must be from %v to %v", p.Turn, MinTurn, MaxTurn)
	}
	return nil
}

// Config is what holds for all VMs. The zero value of a field is its default.
type Config struct {
	// Idle is how long a VM that has its turn may be without work before the turn passes on; 40 µs,
	// since workers report that up to 10 µs late.
	Idle time.Duration
	// InFlight is how much predicted work a VM may have on the GPU; 2 ms.
	InFlight time.Duration
	// InFlightLatency is the same while a VM of the latency class has joined; 500 µs.
	InFlightLatency time.Duration
	// Burst is how many turns a VM of the latency class may be ahead of its share, and how many a
	// limit on time saves up; 4.
	Burst int
}

func (c Config) withDefaults() Config {
	if c.Idle == 0 {
		c.Idle = 40 * time.Microsecond
	}
	if c.InFlight == 0 {
		c.InFlight = 2 * time.Millisecond
	}
	if c.InFlightLatency == 0 {
		c.InFlightLatency = 500 * time.Microsecond
	}
	if c.Burst == 0 {
		c.Burst = 4
	}
	return c
}

// SPDX-License-Identifier: Apache-2.0

package gate

import "time"

// State is what the gate's word says.
type State struct {
	Open bool
	// Free says that nobody counts what the workers do: they needn't fill in their entries.
	Free bool
	// Attend asks the workers to ring the bell when their work has ended.
	Attend bool
	// Knock asks the workers to ring the bell when their work begins.
	Knock bool
	// Soon asks waiting workers to poll: the gate is about to open.
	Soon bool
	// InFlight is how much predicted work each stream may have on the GPU. It is kept in whole
	// microseconds.
	InFlight time.Duration
}

// Turn is one of a VM's turns, for figures alone. Each arbiter counts from its beginning.
type Turn struct {
	Number   uint64 // of the one that goes on, or else of the last one; 0: nobody told
	Overruns uint64 // turns whose work didn't end in time
}

// The word's bits.
const (
	openBit   = 1 << 0
	freeBit   = 1 << 1
	attendBit = 1 << 2
	knockBit  = 1 << 3
	soonBit   = 1 << 4
	flightBit = 5 // and up: microseconds

	maxFlight = (1<<(32-flightBit) - 1) * time.Microsecond
)

// Unshared is the state of a gate without an arbiter.
var Unshared = State{Open: true, Free: true}

func (s State) word() uint32 {
	w := uint32(min(max(0, s.InFlight), maxFlight)/time.Microsecond) << flightBit
	if s.Open {
		w |= openBit
	}
	if s.Free {
		w |= freeBit
	}
	if s.Attend {
		w |= attendBit
	}
	if s.Knock {
		w |= knockBit
	}
	if s.Soon {
		w |= soonBit
	}
	return w
}

func stateOf(w uint32) State {
	return State{
		Open: w&openBit != 0, Free: w&freeBit != 0, Attend: w&attendBit != 0,
		Knock: w&knockBit != 0, Soon: w&soonBit != 0,
		InFlight: time.Duration(w>>flightBit) * time.Microsecond,
	}
}

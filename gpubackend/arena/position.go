// SPDX-License-Identifier: Apache-2.0

package arena

// Position is how far a worker has got in an arena. Another worker can go on from there.
type Position struct {
	Consumed, Executed uint32 // of the command ring
	Output             uint32 // of the output ring
	Dropped            uint64 // bytes of text that found no room
	Copied             uint32 // the guest's count as last seen
}

// Position returns how far the worker has got. All that is consumed has been given back to the
// guest.
func (a *Arena) Position() Position {
	a.Release()
	return Position{a.consumed, a.executed, a.output, a.dropped, a.copied}
}

// GoOn makes an arena that is new to this worker go on from a position.
func (a *Arena) GoOn(p Position) {
	a.consumed, a.limit, a.executed = p.Consumed, p.Consumed, p.Executed
	a.output, a.dropped, a.copied = p.Output, p.Dropped, p.Copied
}

// SPDX-License-Identifier: Apache-2.0

// Package arena is the worker's side of the memory that it shares with one guest process: the
// command ring, the completion slots, the output ring and the bulk area (docs/protocol.md, "The
// arena").
//
// The guest process may write anything anywhere in it at any time. Positions and lengths are read
// once and checked; what they point at is copied before it is checked, except payloads: by changing
// those the guest harms only itself. An Arena belongs to the worker's goroutine.
package arena

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// ErrRing says that the guest's positions or a command's header make no sense: the ring can't be
// followed any more.
var ErrRing = errors.New("command ring is corrupt")

// ErrBounds says that a buffer lies outside the bulk area.
var ErrBounds = errors.New("buffer outside the bulk area")

// Arena is a mapped arena.
type Arena struct {
	mem      []byte
	consumed uint32
	limit    uint32 // end of the commands that are known to be there
	executed uint32
	output   uint32 // position of the output ring's head
	dropped  uint64
	copied   uint32 // the guest's count as last seen
	held     bool   // whether the guest was told that commands are held
}

// commandBuffer is how much of a command is copied for decoding: the header and every argument word
// of every function. In longer commands, the payload or parameters follow, which are used in place.
const commandBuffer = 256

// MinBytes is the least size of an arena.
const MinBytes = wire.Bulk + 65536

// New returns the arena in mem.
func New(mem []byte) (*Arena, error) {
	if len(mem) < MinBytes {
		return nil, fmt.Errorf("arena of %d bytes: want at least %d", len(mem), MinBytes)
	}
	a := &Arena{mem: mem}
	a.held = a.load(wire.ArenaHeaderHeldOffset) != 0 // an earlier worker may have told the guest
	return a, nil
}

// Command is a command in the ring: the header and Words are a copy, Body is the guest's own
// memory.
type Command struct {
	wire.Command
	Words [(commandBuffer - wire.CommandSize) / 8]uint64
	N     int    // number of Words
	Body  []byte // everything behind the header, in place: may change while it is looked at
}

// Pending tells whether there are commands to take.
func (a *Arena) Pending() bool { return a.load(wire.ArenaHeaderAppendedOffset) != a.consumed }

// Next reads the next command without consuming it. ok is false when there is none.
func (a *Arena) Next(c *Command) (ok bool, err error) {
	if a.limit == a.consumed {
		if a.limit = a.load(wire.ArenaHeaderAppendedOffset); a.limit == a.consumed {
			return false, nil
		}
	}
	avail := a.limit - a.consumed
	at := a.consumed % wire.RingBytes
	room := uint32(wire.RingBytes) - at
	if avail > wire.RingBytes || avail < wire.CommandSize || at%8 != 0 || room < wire.CommandSize {
		return false, a.skipFill(avail, room)
	}
	ring := a.mem[wire.Ring : wire.Ring+wire.RingBytes]
	c.Decode(ring[at:])
	if c.Size < wire.CommandSize || c.Size%8 != 0 || c.Size > avail || c.Size > room {
		return false, fmt.Errorf("command of %d bytes with %d written: %w", c.Size, avail, ErrRing)
	}
	c.Body = ring[at+wire.CommandSize : at+c.Size]
	c.copyWords()
	return true, nil
}

// skipFill consumes a filler at the ring's end that is too short for a header.
func (a *Arena) skipFill(avail, room uint32) error {
	if avail <= wire.RingBytes && room < wire.CommandSize && room <= avail && a.consumed%8 == 0 {
		a.consumed += room
		a.Release()
		return nil
	}
	return fmt.Errorf("%d bytes written: %w", avail, ErrRing)
}

// Consume ends a command. Its bytes go back to the guest by Release.
func (a *Arena) Consume(c *Command) {
	a.executed++
	a.consumed += c.Size
}

// Release gives the bytes of all consumed commands back to the guest. It is called once a batch,
// since each call moves the cache line between both sides.
func (a *Arena) Release() {
	a.store(wire.ArenaHeaderExecutedOffset, a.executed)
	a.store(wire.ArenaHeaderConsumedOffset, a.consumed)
}

// Unreleased is the number of bytes that Release would give back.
func (a *Arena) Unreleased() uint32 { return a.consumed - a.load(wire.ArenaHeaderConsumedOffset) }

// Answer answers the call that waits in a slot.
func (a *Arena) Answer(slot uint16, seq uint32, result int32, words []uint64) {
	if int(slot) >= wire.SlotCount || len(words) > maxAnswer {
		return
	}
	s := a.mem[wire.Slots+int(slot)*wire.SlotBytes:][:wire.SlotBytes]
	for i, w := range words {
		put64(s[wire.SlotWordOffset+8*i:], w)
	}
	put32(s[wire.SlotResultOffset:], uint32(result))
	put32(s[wire.SlotWordsOffset:], uint32(len(words)))
	// The atomic store orders the words before it.
	atomic.StoreUint32(memword.Of32(s), seq)
}

const maxAnswer = (wire.SlotBytes - wire.SlotWordOffset) / 8

func clear32(p *uint32) {
	if atomic.LoadUint32(p) != 0 {
		atomic.StoreUint32(p, 0)
	}
}

// Prepare makes a slot ready, with result 0 and no words, for somebody else to write its `done`,
// and returns where that is.
func (a *Arena) Prepare(slot uint16) (done []byte, ok bool) {
	if int(slot) >= wire.SlotCount {
		return nil, false
	}
	s := a.mem[wire.Slots+int(slot)*wire.SlotBytes:][:wire.SlotBytes]
	// Only a change is written: the guest's thread polls this line, which has that answer most of
	// the time.
	clear32(memword.Of32(s[wire.SlotResultOffset:]))
	clear32(memword.Of32(s[wire.SlotWordsOffset:]))
	return s[wire.SlotDoneOffset : wire.SlotDoneOffset+4], true
}

// Answered tells whether a slot has that answer, or a later one.
func (a *Arena) Answered(slot uint16, seq uint32) bool {
	return int32(a.load(wire.Slots+int(slot)*wire.SlotBytes+wire.SlotDoneOffset)-seq) >= 0
}

// HostDone is the sequence number of the last host function that the guest says it has run. Like
// Answer and Sleepers, it may be called by any goroutine.
func (a *Arena) HostDone() uint32 { return a.load(wire.ArenaHeaderHostDoneOffset) }

// SlotArea is the memory of all slots: whole pages.
func (a *Arena) SlotArea() []byte {
	return a.mem[wire.Slots : wire.Slots+wire.SlotCount*wire.SlotBytes]
}

// Sleepers tells whether guest threads sleep: read after Answer, which ends with a full barrier.
func (a *Arena) Sleepers() bool { return a.load(wire.ArenaHeaderSleepersOffset) != 0 }

// SetSleeping announces that the worker is about to sleep, or is awake. After SetSleeping(true) the
// caller looks at Pending once more.
func (a *Arena) SetSleeping(on bool) {
	v := uint32(0)
	if on {
		v = 1
	}
	// A swap is a full barrier: the announcement is visible before positions are read again.
	atomic.SwapUint32(a.at(wire.ArenaHeaderWorkerSleepingOffset), v)
}

// Held is what SetHeld last told the guest.
func (a *Arena) Held() bool { return a.held }

// SetHeld tells the guest whether commands wait for the VM's turn, and returns whether that is a
// change. Afterwards Sleepers may be read.
func (a *Arena) SetHeld(on bool) (changed bool) {
	if on == a.held {
		return false
	}
	a.held = on
	v := uint32(0)
	if on {
		v = 1
	}
	atomic.SwapUint32(a.at(wire.ArenaHeaderHeldOffset), v) // a full barrier
	return true
}

// AsyncError leaves the result of a delayed call for the guest, unless an older one still waits.
func (a *Arena) AsyncError(result int32) {
	atomic.CompareAndSwapUint32(a.at(wire.ArenaHeaderAsyncErrorOffset), 0, uint32(result))
}

// StickyError tells the guest that its context is dead.
func (a *Arena) StickyError(result int32) {
	atomic.CompareAndSwapUint32(a.at(wire.ArenaHeaderStickyErrorOffset), 0, uint32(result))
}

// Bulk returns n bytes of the bulk area at an offset from the arena's start, in place.
func (a *Arena) Bulk(offset, n uint64) ([]byte, error) {
	size := uint64(len(a.mem))
	if offset < wire.Bulk || offset > size || n > size-offset {
		return nil, ErrBounds
	}
	return a.mem[offset : offset+n : offset+n], nil
}

// Copied is how many payload bytes the guest says it has copied since the last call. A lie
// falsifies only its own statistics.
func (a *Arena) Copied() uint64 {
	now := a.load(wire.ArenaHeaderCopiedOffset)
	n := now - a.copied
	a.copied = now
	return uint64(n)
}

// Executed is the number of consumed commands.
func (a *Arena) Executed() uint32 { return a.executed }

// BulkArea is the whole bulk area.
func (a *Arena) BulkArea() []byte { return a.mem[wire.Bulk:] }

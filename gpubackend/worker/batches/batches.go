// SPDX-License-Identifier: Apache-2.0

// Package batches says where a batch of commands ends: its launches go to the driver together, and
// the bytes of all of them back to the guest.
//
// A batch ends when the ring has no more commands, when it has as many commands or bytes as the
// policy allows, before a command that stays in the ring, and with one whose thread waits for its
// answer. If the policy delays batches, a batch grows for a time, as long as the program goes on
// launching.
//
// # Who owns what
//
// The worker's loop owns a Batches, and asks it before and after each command. The ring and the
// launcher are used, not owned.
//
// # Who may lie
//
// The guest wrote the commands and their sizes; the arena has checked the sizes.
package batches

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Launcher collects launches.
type Launcher interface {
	Collected() bool
	Flush()
	Report()
}

// Gate is told what the device gets.
type Gate interface {
	Ripe() bool
	Submitted()
	Executed()
}

// Config is what a Batches needs.
type Config struct {
	Arena    func() *arena.Arena
	Launcher Launcher
	Gate     Gate
	State    *handover.State  // has the counters
	Policy   *handover.Policy // which may change
}

// Batches has the batch that is being executed, and when the previous one ended.
type Batches struct {
	Config
	commands uint32 // executed so far; 0: there is no batch
	bytes    uint32 // of them, without fillers
	answered bool   // the last one was a call: its thread waits, and nothing is to be delayed

	// Only with Policy.BatchDelayUs.
	until time.Time // when a batch that may grow ends at the latest; zero: it doesn't grow
	ended time.Time // when the previous batch ended
}

// New returns a Batches that has executed nothing yet.
func New(c Config) *Batches { return &Batches{Config: c} }

// ReleaseBytes is how much of the ring may be consumed before ReleaseEarly.
const ReleaseBytes = wire.RingBytes / 4

// Add counts a command that was executed.
func (b *Batches) Add(c *call.Call, bytes uint32) {
	b.commands++
	b.bytes += bytes
	b.answered = c.Reply()
}

// HasRoom says whether a command may join those before it in the batch. The first always may.
func (b *Batches) HasRoom(bytes uint32) bool {
	return b.commands == 0 || uint64(b.bytes)+uint64(bytes) <= uint64(b.Policy.BatchBytes)
}

// Full says whether the batch has as many commands as it may have.
func (b *Batches) Full() bool { return b.commands >= b.Policy.BatchCommands }

// Until is when a batch that grows ends at the latest; zero: it doesn't grow.
func (b *Batches) Until() time.Time { return b.until }

// SubmitEarly hands the driver what was collected before the batch is accounted for: meanwhile,
// usually, the thread that launched has appended the call that waits. It says whether there are
// more commands, which then join the batch.
func (b *Batches) SubmitEarly() (more bool) {
	if !b.Launcher.Collected() || !b.until.IsZero() || b.grows() {
		return false
	}
	ring := b.Arena()
	if !ring.Pending() {
		b.Launcher.Flush()
	}
	return ring.Pending()
}

// SubmitRipe gives the driver what was admitted at the gate, if that is enough.
func (b *Batches) SubmitRipe() {
	if b.Gate.Ripe() {
		b.Launcher.Flush()
		b.Gate.Submitted()
	}
}

// Drained handles an empty ring. It says whether a batch ended.
func (b *Batches) Drained() bool {
	switch {
	case b.commands == 0 || b.grows():
		return false
	case b.answered:
		b.End(handover.BatchesAnswered)
	case !b.until.IsZero() && b.Launcher.Collected():
		b.End(handover.BatchesDelayed)
	default:
		b.End(handover.BatchesDrained)
	}
	return true
}

// Held ends the batch before a command that stays in the ring. It says whether there was one.
func (b *Batches) Held() (ended bool) {
	if b.commands == 0 {
		return false
	}
	b.End(handover.BatchesHeld)
	return true
}

// grows says whether launches wait for more of them: while the program goes on launching, for
// BatchDelayUs at most. The first after a pause is executed at once, since the GPU may have nothing
// to do.
func (b *Batches) grows() bool {
	if b.Policy.BatchDelayUs == 0 || b.answered || !b.Launcher.Collected() {
		return false
	}
	delay, now := time.Duration(b.Policy.BatchDelayUs)*time.Microsecond, time.Now()
	if b.until.IsZero() {
		if now.Sub(b.ended) >= delay {
			return false
		}
		b.until = now.Add(delay)
	}
	return now.Before(b.until)
}

// End executes what was collected, gives the ring's bytes back and counts why.
func (b *Batches) End(why handover.Counter) {
	ring := b.Arena()
	b.Launcher.Flush()
	b.Gate.Executed()
	ring.Release()
	b.Launcher.Report()
	b.State.Count(handover.Batches, 1)
	b.State.Count(why, 1)
	b.State.Set(handover.Commands, uint64(ring.Executed()))
	b.State.Count(handover.BytesCopied, ring.Copied())
	b.commands, b.bytes, b.answered = 0, 0, false
	b.until, b.ended = time.Time{}, time.Time{}
	if b.Policy.BatchDelayUs > 0 {
		b.ended = time.Now()
	}
}

// ReleaseEarly gives the ring's bytes back within a batch that has many.
func (b *Batches) ReleaseEarly() {
	b.Launcher.Flush()
	b.Arena().Release()
	b.State.Count(handover.RingReleases, 1)
}

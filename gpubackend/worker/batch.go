// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// batch is the commands that are executed at a time: their launches go to the driver together, and
// the bytes of all of them back to the guest.
type batch struct {
	commands uint32 // executed so far; 0: there is no batch
	bytes    uint32 // of them, without fillers
	answered bool   // the last one was a call: its thread waits, and nothing is to be delayed

	// With Policy.BatchDelayUs only.
	until time.Time // when a batch that may grow ends at the latest; zero: it doesn't grow
	ended time.Time // when the batch before ended
}

// add counts a command that was executed.
func (b *batch) add(c *call.Call, bytes uint32) {
	b.commands++
	b.bytes += bytes
	b.answered = c.Reply()
}

// hasRoom says whether a command is still to be executed with those before it. The first always is.
func (w *Worker) hasRoom(bytes uint32) bool {
	b := &w.batch
	return b.commands == 0 || uint64(b.bytes)+uint64(bytes) <= uint64(w.policy.BatchBytes)
}

// submitEarly hands the driver what was collected before the batch is accounted for: meanwhile the
// thread that launched has appended the call that waits, most often. It says whether there are more
// commands, which travel with the batch.
func (w *Worker) submitEarly() (more bool) {
	if !w.launcher.Collected() || !w.batch.until.IsZero() || w.grows() {
		return false
	}
	if !w.arena.Pending() {
		w.launcher.Flush()
	}
	return w.arena.Pending()
}

// drained handles a ring without further commands. It says whether a batch ended.
func (w *Worker) drained() bool {
	b := &w.batch
	switch {
	case b.commands == 0 || w.grows():
		return false
	case b.answered:
		w.endBatch(handover.BatchesAnswered)
	case !b.until.IsZero() && w.launcher.Collected():
		w.endBatch(handover.BatchesDelayed)
	default:
		w.endBatch(handover.BatchesDrained)
	}
	return true
}

// grows says whether launches wait for more of them: while the program goes on launching, for
// BatchDelayUs at most. The first after a pause is executed at once, since the GPU may have nothing
// to do.
func (w *Worker) grows() bool {
	b := &w.batch
	if w.policy.BatchDelayUs == 0 || b.answered || !w.launcher.Collected() {
		return false
	}
	delay, now := time.Duration(w.policy.BatchDelayUs)*time.Microsecond, time.Now()
	if b.until.IsZero() {
		if now.Sub(b.ended) >= delay {
			return false
		}
		b.until = now.Add(delay)
	}
	return now.Before(b.until)
}

// endBatch executes what was collected, gives the ring's bytes back and counts why.
func (w *Worker) endBatch(why handover.Counter) {
	w.launcher.Flush()
	if w.admission != nil {
		w.admission.Submitted()
		w.admission.Executed()
	}
	w.arena.Release()
	w.launcher.Report()
	w.state.Count(handover.Batches, 1)
	w.state.Count(why, 1)
	w.state.Set(handover.Commands, uint64(w.arena.Executed()))
	w.state.Count(handover.BytesCopied, w.arena.Copied())
	w.batch = batch{}
	if w.policy.BatchDelayUs > 0 {
		w.batch.ended = time.Now()
	}
}

// releaseEarly gives the ring's bytes back within a batch that has many.
func (w *Worker) releaseEarly() {
	w.launcher.Flush()
	w.arena.Release()
	w.state.Count(handover.RingReleases, 1)
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/batches"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// runCommands executes what the guest has appended, up to the end of a batch. A batch that may grow
// stays open.
func (w *Worker) runCommands() (ran bool, err error) {
	gated := w.door.Begin()
	if w.arena == nil || w.waiting.Full() || w.shortage.Waits() {
		return false, nil
	}
	if !gated {
		w.tellHeld(false)
	}
	c := &w.current
	for {
		ok, err := w.arena.Next(&w.command)
		if err != nil {
			return ran, err
		}
		if !ok {
			if w.batches.SubmitEarly() {
				continue
			}
			return w.batches.Drained() || ran, nil
		}
		bytes := uint32(0)
		if w.command.Op != wire.OpNop {
			if bytes = w.command.Size; !w.batches.HasRoom(bytes) {
				w.batches.End(handover.BatchesFullBytes)
				return true, nil
			}
			c.Start(&w.command)
			if gated && w.hello.IsOpen() && !w.admits(c) {
				return w.batches.Held() || ran, nil
			}
			w.execute(c)
			if w.hello.Cold() {
				return ran, errCold // the command is left to the next worker
			}
			if w.shortage.Waits() {
				return w.batches.Held() || ran, nil // it stays in the ring
			}
		}
		w.arena.Consume(&w.command)
		w.batches.Add(c, bytes)
		ran = true
		if gated {
			w.batches.SubmitRipe()
		}
		switch {
		case w.waiting.Full():
			w.batches.End(handover.BatchesStalled)
			return true, nil
		case w.batches.Full():
			w.batches.End(handover.BatchesFull)
			return true, nil
		case w.arena.Unreleased() > batches.ReleaseBytes:
			w.batches.ReleaseEarly()
		}
	}
}

// admits says, at a gate, whether a command is executed now.
func (w *Worker) admits(c *call.Call) bool {
	if !w.door.Admits(c) {
		w.tellHeld(w.door.Closed() && !w.door.Soon())
		return false
	}
	if w.arena.Held() {
		w.tellHeld(false)
	}
	return true
}

// tellHeld tells the guest whether commands wait for the VM's turn, in which case its threads
// sleep. They are awake again when a turn's first answers come.
func (w *Worker) tellHeld(held bool) {
	if w.arena.SetHeld(held) && !held {
		w.queue.WakeSleepers()
	}
}

// execute runs one command, and answers it unless the answer comes later.
func (w *Worker) execute(c *call.Call) {
	result := w.dispatch(c)
	w.buffers.Release()
	if result == gpubackend.OutOfMemory && w.shortage.Stops(c.Op) {
		return
	}
	if result != call.Pending {
		w.maps.GiveUnused(c, result)
		w.finish(c.Slot, c.Seq, c.Reply(), result, c.Answers())
	}
}

func (w *Worker) dispatch(c *call.Call) gpubackend.Result {
	if c.Op != gpubackend.OpLaunchKernel || c.Context != w.contexts.Current() {
		w.launcher.Flush()
	}
	h := w.table.Find(c.Op)
	switch {
	case h == nil:
		w.protocol.Unknown(c.Op)
		return gpubackend.NotSupported
	case c.Command.N < h.Words:
		return gpubackend.InvalidValue
	case c.Slot >= wire.SlotCount:
		return gpubackend.InvalidValue
	case h.Bare:
		return h.Run(c)
	case !w.hello.IsOpen():
		return gpubackend.NotInitialized
	}
	if result := w.contexts.Set(c.Context, h.NoContext); result != gpubackend.Success {
		return result
	}
	return h.Run(c)
}

// finish gives the guest a result: in the slot of the caller if it waits, else as an asynchronous
// error.
func (w *Worker) finish(
	slot uint16, seq uint32, reply bool, result gpubackend.Result, words []uint64,
) {
	w.failed(result)
	if !reply {
		if result != gpubackend.Success {
			w.arena.AsyncError(int32(result))
		}
		return
	}
	w.print()
	w.arena.Answer(slot, seq, int32(result), words)
	w.queue.WakeSleepers()
}

// failed counts an error, and remembers one that the context doesn't survive.
func (w *Worker) failed(result gpubackend.Result) {
	if result == gpubackend.Success || result == gpubackend.NotReady {
		return
	}
	w.state.Count(handover.Errors, 1)
	w.faults.Note(result)
	if result.Sticky() {
		w.failure.Tell(result)
		w.arena.StickyError(int32(result))
		w.hostFuncs.Fail(result)
	}
}

// pollWaiters looks at all that is under way, answers the calls whose wait is over and says whether
// there were any.
func (w *Worker) pollWaiters() (answered bool) {
	if w.waiting.Len() == 0 && !w.copies.Active() && !w.hostFuncs.Busy() {
		return false
	}
	w.copies.Poll()
	if w.hostFuncs.Busy() && w.hostFuncs.Advance() {
		answered = true
	}
	return w.waiting.Poll() || answered
}

// print passes on what kernels have written, before a call is answered, as CUDA does at
// synchronising calls.
func (w *Worker) print() {
	if !w.hello.IsOpen() {
		return
	}
	for _, o := range w.driver.Output() {
		w.arena.Print(o.FD, o.Text)
		w.state.Set(handover.OutputDropped, w.arena.Dropped())
	}
}

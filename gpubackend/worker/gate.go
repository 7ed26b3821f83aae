// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/admission"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// openGate takes over the files of the VM's gate. Without files there is none.
func openGate(entry int, files []int) (*gate.Page, error) {
	if len(files) == 0 {
		return nil, nil
	}
	if entry < 0 || entry >= gate.Entries {
		handover.CloseFiles(files)
		return nil, fmt.Errorf("open gate: no entry %d", entry)
	}
	return gate.Open(files[0], files[1], files[2])
}

// makeAdmission makes what decides when the GPU is given work, if there is a gate.
func (w *Worker) makeAdmission() {
	if w.gate == nil {
		return
	}
	w.admission = admission.New(admission.Config{
		Gate: w.gate.Worker(w.gateEntry), Fences: w.fences, Contexts: w.contexts,
		Capturing: func() bool { return w.graphs.Captures() > 0 },
		Idle:      func() bool { return !w.launcher.Collected() && w.standsStill() },
		Count:     func(d time.Duration) { w.state.Count(handover.GPUTime, uint64(d)) },
		Now:       time.Now,
	})
}

// mayGoOn says whether a copy that was begun may go on with another chunk.
func (w *Worker) mayGoOn() bool {
	return !w.hold.drains && (w.admission == nil || w.admission.May())
}

// beginBatch says whether commands that give the GPU work must be admitted.
func (w *Worker) beginBatch() (gated bool) { return w.admission != nil && w.admission.Begin() }

// admits says whether a command is executed now. Otherwise it stays in the ring.
func (w *Worker) admits(c *call.Call) bool {
	if !c.Op.Works() || !w.hello.IsOpen() {
		return true
	}
	s, k := w.workOf(c)
	return w.admission.Admit(s, k) == admission.Pass
}

// workOf is where a command gives work, and of which kind it is. A handle that is none gets its
// answer from the command's handler.
func (w *Worker) workOf(c *call.Call) (admission.Stream, admission.Kind) {
	s, k := admission.Stream{Context: c.Context}, admission.Kind{Op: c.Op}
	if word, ok := c.Op.WorkStream(); ok {
		s.Native = w.streams.Known(c, c.Word(word))
	}
	switch c.Op {
	case gpubackend.OpGraphLaunch:
		k.ID = c.Word(0)
	case gpubackend.OpLaunchKernel:
		var a command.LaunchKernel
		if a.Decode(c.Words(), c.Command.Body) {
			k.ID = a.Function
			k.Shape = admission.ShapeOf(
				[3]uint32{a.GridX, a.GridY, a.GridZ}, [3]uint32{a.BlockX, a.BlockY, a.BlockZ})
		}
	}
	return s, k
}

// submitRipe gives the driver what was admitted, if it is much.
func (w *Worker) submitRipe() {
	if w.admission.Ripe() {
		w.launcher.Flush()
		w.admission.Submitted()
	}
}

// held ends the batch before a command that stays in the ring. It says whether there was one.
func (w *Worker) held() (ended bool) {
	if w.batch.commands == 0 {
		return false
	}
	w.endBatch(handover.BatchesHeld)
	return true
}

// heldBack says whether commands stay in the ring although there are some.
func (w *Worker) heldBack() bool {
	return w.room.waits || w.admission != nil && w.admission.Stopped() != admission.Pass
}

// closed says whether the worker waits for the gate to open.
func (w *Worker) closed() bool {
	return w.admission != nil && w.admission.Stopped() == admission.Closed
}

// atGate says whether the worker waits for the gate to open, which it is about to: there is no time
// to sleep.
func (w *Worker) atGate() bool { return w.closed() && w.admission.Gate.State().Soon }

// watchGate tells the arbiter when work has ended, while there is nothing else to do. A worker at a
// free gate asks the driver only before it sleeps.
func (w *Worker) watchGate(now time.Time, idle, spin time.Duration) {
	a := w.admission
	switch {
	case a == nil:
	case a.Gated() && a.Open() && !w.heldBack() && idle < min(spin, restAfter):
	case a.Gated():
		a.Look(now, w.quiet.since)
	case w.waits():
		a.Busy(now)
	case idle >= spin:
		a.Look(now, w.quiet.since)
	}
}

// restAfter is for how long there is nothing to do before the arbiter is told, in a turn: a program
// that waits for its kernels is back with the next one before that.
const restAfter = 10 * time.Microsecond

// gatePause is how long a worker pauses at most while the arbiter waits for its work to end.
const gatePause = 25 * time.Microsecond

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/admission"
	"github.com/paracuda/paracuda/gpubackend/worker/batches"
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
	return gate.OpenOwn(files[0], files[1], files[2])
}

// makeBatches makes the rooms that say where a batch of commands ends, and whether a command is
// executed now.
func (w *Worker) makeBatches() {
	var a *admission.Admission
	if w.gate != nil {
		a = admission.New(admission.Config{
			Gate: w.gate.Worker(w.gateEntry), Fences: w.fences, Contexts: w.contexts,
			Capturing: func() bool { return w.graphs.Captures() > 0 },
			Idle:      func() bool { return !w.launcher.Collected() && w.standstill.StandsStill() },
			Count:     w.state.Count,
			Now:       time.Now,
		})
	}
	w.door = admission.NewDoor(a, w.streams)
	w.batches = batches.New(batches.Config{
		Arena: func() *arena.Arena { return w.arena }, Launcher: w.launcher, Gate: w.door,
		State: w.state, Policy: &w.policy,
	})
}

// heldBack says whether commands stay in the ring.
func (w *Worker) heldBack() bool { return w.shortage.Waits() || w.door.Stopped() }

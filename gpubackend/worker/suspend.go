// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"math/rand/v2"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/filed"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/gpubackend/worker/precopied"
	"github.com/paracuda/paracuda/gpubackend/worker/standstill"
	"github.com/paracuda/paracuda/gpubackend/worker/suspension"
)

// makeHolding makes the rooms that make the worker stand still, and that move its device memory.
func (w *Worker) makeHolding() {
	w.suspension = suspension.New(suspension.Config{
		Driver: w.driver, Recall: w.copies.Recall, Images: w.images,
		Shared: w.shared, Key: rand.Uint64,
	})
	w.precopied = precopied.New(precopied.Config{
		Driver: w.driver, Key: rand.Uint64, Busy: w.noCopy,
	})
	w.filed = filed.New(filed.Config{Driver: w.driver, Key: rand.Uint64})
	w.makeSaving()
	w.standstill = standstill.New(standstill.Config{
		Driver: w.driver, Contexts: w.contexts, Objects: &w.objects, Copies: w.copies,
		Calls: w.waiting, HostFuncs: w.hostFuncs, Launcher: w.launcher, Graphs: w.graphs,
		Gate: w.door, Memory: w.suspension, Program: w.saving, Sleeper: w.sleeping,
		Queue: w.queue, Pages: &w.dirty, Watchdog: w.watchdog, Send: w.send,
		Loop: standstill.Duties{
			Messages: func() <-chan inbox.Received { return w.messages },
			Obey:     w.obey, Poll: w.pollWaiters, Begin: w.tellFixed,
			Execute: func() error {
				_, err := w.runCommands()
				return err
			},
		},
	})
}

// shared says whether other processes may have mapped memory of a range.
func (w *Worker) shared(address, bytes uint64) bool {
	return w.sharing.Has(address, bytes) || w.pools.Shares(address, bytes) ||
		w.memory.Shares(address, bytes)
}

// noCopy says why device memory can't be copied while work goes on; nil: it can.
func (w *Worker) noCopy() error {
	switch {
	case w.suspension.Out():
		return errors.New("device memory is out")
	case w.graphs.Captures() > 0:
		return errors.New("a graph is captured")
	}
	return nil
}

// precopy copies some device memory ahead, and answers. Host functions go on meanwhile: the driver
// may wait for them when it loads the kernel that compares memory.
func (w *Worker) precopy(m *handover.Message, buffer int) error {
	w.hostFuncs.LetGo()
	defer w.hostFuncs.Hold()
	answer := &handover.Message{Kind: handover.KindPrecopied}
	var err error
	switch {
	case m.Over:
		w.precopied.End()
	case buffer >= 0:
		var known precopied.Filed
		if m.Filed {
			known = w.filed
		}
		err = w.precopied.Begin(buffer, known)
		handover.CloseFiles([]int{buffer})
	default:
		answer.Sectors, answer.Over, err = w.precopied.Step()
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return w.send(answer)
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/history"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
	"github.com/paracuda/paracuda/gpubackend/worker/saving"
	"github.com/paracuda/paracuda/gpubackend/worker/shortage"
	"github.com/paracuda/paracuda/gpubackend/worker/standstill"
	"github.com/paracuda/paracuda/gpubackend/worker/waiting"
)

// A drained worker writes all that its program has, as a record of one program, whether its device
// memory is out or in. After that it may be ended, or go on as before.

// The history may take, in addition, one part in historyPart of what the guest process may take of
// the host's memory, but at most historyMost.
const (
	historyPart = 8
	historyMost = 256 << 20
)

// makeSaving makes the room that saves a program, and, if the device can be saved, the one that
// keeps its commands.
func (w *Worker) makeSaving() {
	w.history = nil
	c := saving.Config{
		GPU: w.gpu, Driver: w.driver, Objects: &w.objects, Buffers: &w.buffers,
		Contexts: w.contexts, Hello: w.hello, Queue: w.queue, HostFuncs: w.hostFuncs,
		Pools: w.pools, Graphs: w.graphs, Textures: w.textures, Memory: w.memory,
		HostMemory: w.hostMemory, Sharing: w.sharing, Imports: w.exports,
		DeviceMemory: w.suspension,
		Precopied:    w.precopied,
		Filed:        w.filed,
		Host:         w.host, Run: w.dispatch,
		Told:  w.failure.Told,
		Fail:  func(result gpubackend.Result) { w.failure.Restore(result, &w.table) },
		Waits: func() error { return callsWait(w.shortage, w.waiting) },
	}
	if w.driver.Saves() {
		most := uint64(historyMost)
		if w.host != nil {
			most = min(most, w.host.Limit()/historyPart)
		}
		w.history = history.New(history.Config{
			Objects: &w.objects, Buffers: &w.buffers, Memory: budget.New(most),
			Primary: w.contexts.Primary,
		})
		c.History = w.history
	}
	w.saving = saving.New(c)
}

// errRoom says that a call of the program waits for device memory.
var errRoom = errors.New("a call waits for device memory")

// callsWait says why waiting calls are in the way of saving.
func callsWait(s *shortage.Shortage, calls *waiting.Waiting) error {
	switch {
	case s.Waits():
		return errRoom
	case calls.Len() > 0:
		return standstill.ErrWorks
	}
	return nil
}

// restoreFrom makes a worker that has done nothing yet into what was written to a stream, and to an
// image, if there is one.
func restoreFrom(s *saving.Saving, record []int, image int, inFile bool) error {
	f, err := lanes.Open(record)
	if err != nil {
		return err
	}
	defer f.Close()
	if image < 0 {
		return s.Restore(f, nil, inFile)
	}
	i := os.NewFile(uintptr(image), "image")
	defer i.Close()
	return s.Restore(f, i, inFile)
}

// join takes what other programs share with this one, which began from what was saved, and answers.
// If that is gone, with its program, this one alone loses the GPU, as soon as it is to go on.
func (w *Worker) join() error {
	answer := &handover.Message{Kind: handover.KindJoined}
	switch err := w.saving.Join(); {
	case errors.Is(err, offers.ErrNone):
		w.lost = fmt.Errorf("the program can't go on: %w", err)
	case err != nil:
		answer.Error = err.Error()
	default:
		if err := errors.Join(w.memory.OfferAgain(), w.pools.OfferAgain()); err != nil {
			answer.Error = err.Error()
		}
	}
	return w.send(answer)
}

// restOf is where device memory is that a worker that is to be saved needn't write.
func restOf(m *handover.Message) savedvm.Rest {
	switch {
	case m.Ahead && m.Filed:
		return savedvm.Early
	case m.Ahead:
		return savedvm.Ahead
	case m.Filed:
		return savedvm.Filed
	}
	return savedvm.Nowhere
}

// tellFixed tells the device process what keeps the program from being moved. The loop calls it in
// lookAround, so that no command pays for it.
func (w *Worker) tellFixed() {
	c := w.saving.Fixed()
	w.state.SetFixed(&c)
}

// tellMovable tells the device process why the program can't be saved, apart from what is under
// way.
func (w *Worker) tellMovable(turn uint64) error {
	answer := &handover.Message{Kind: handover.KindMoves, Turn: turn}
	if why := w.stays(); why != nil {
		answer.Reason = why.Error()
	}
	return w.send(answer)
}

// stays says why the program can't be saved. The driver is asked only while the worker runs, and
// host functions go on meanwhile: the driver may wait for them.
func (w *Worker) stays() error {
	if err := w.saving.Counted(); err != nil || !w.standstill.Free() {
		return err
	}
	w.hostFuncs.LetGo()
	defer w.hostFuncs.Hold()
	return w.saving.Found()
}

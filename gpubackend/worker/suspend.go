// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/sleeping"
	"github.com/paracuda/paracuda/gpubackend/worker/suspension"
)

// While device memory is moved out and in, the worker takes no command from the ring: the guest's
// threads wait in it as for a worker that is slow. Before that it is drained: what was begun ends,
// and calls that wait for it are answered, so that a stream that waits for the guest has what it
// waits for. A kernel may go on for longer than the device process wants to wait; then the worker
// goes on as if it hadn't been asked.

// hold is why the worker takes no commands.
type hold struct {
	paused bool // the device process has its queue
	drains bool // what was begun is to end
	whole  bool // calls that wait, too
	still  bool // it has, and the device process may move memory
	waits  bool // whileHeld runs
	told   bool // the device process knows that there is work

	masters uint64 // how many device processes have taken the worker over
}

func (w *Worker) makeSuspension() {
	w.suspension = suspension.New(suspension.Config{
		Driver: w.driver, Recall: w.copies.Recall, Images: w.images,
		Shared: func(address, bytes uint64) bool {
			return w.sharing.Has(address, bytes) || w.pools.Shares(address, bytes)
		},
	})
}

// beginHeld waits, where the worker starts while its VM is suspended.
func (w *Worker) beginHeld(held bool) error {
	if w.hold.still = held; held {
		w.tellWork()
	}
	return w.whileHeld()
}

// whileHeld obeys the device process, and does nothing else until it may go on.
func (w *Worker) whileHeld() error {
	if w.hold.waits {
		return nil // the one that runs goes on
	}
	w.hold.waits = true
	w.tellFixed()
	w.watchdog.asleep.Store(true)
	defer func() {
		w.hold.waits = false
		w.watchdog.asleep.Store(false)
	}()
	for w.hold.paused || w.hold.still {
		if !w.hold.paused && !w.hold.told && len(w.messages) == 0 {
			if err := w.awaitWork(); err != nil {
				return err
			}
			continue
		}
		if err := w.obey(<-w.messages); err != nil {
			return err
		}
	}
	return nil
}

// errWorks is why a worker can't be drained.
var errWorks = errors.New("its work goes on")

// errCaptures is another reason: copies would end the capture.
var errCaptures = errors.New("it captures a graph")

// drain ends what was begun, in the time that the message gives it, and then waits.
func (w *Worker) drain(m *handover.Message) error {
	answer := &handover.Message{Kind: handover.KindDrained, Turn: m.Turn}
	if !w.hold.still {
		asked := w.hold.masters
		w.hold.drains, w.hold.whole = true, m.Whole
		why, err := w.awaitDrained(time.Now().Add(m.Grace))
		w.hold.drains, w.hold.whole = false, false
		if err != nil || asked != w.hold.masters {
			return err
		}
		if m.Whole { // which has other reasons, and better ones
			why = cmp.Or(w.saving.Unsavable(), why)
		}
		if why != nil {
			answer.Error = why.Error()
			return w.control.Send(answer, nil)
		}
		w.door.Standstill()
		w.hold.still = true
	} else if m.Whole {
		if why := w.saving.Unsavable(); why != nil {
			answer.Error = why.Error()
			return w.control.Send(answer, nil)
		}
	}
	answer.Bytes = w.suspension.Plan()
	if err := w.control.Send(answer, nil); err != nil {
		return err
	}
	return w.whileHeld()
}

// awaitDrained serves all but the ring until nothing is under way, and says why that doesn't come
// until a time. A capture goes on until its end is in the ring.
func (w *Worker) awaitDrained(until time.Time) (why, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	w.launcher.Flush()
	for begin := time.Now(); ; {
		w.watchdog.turn()
		if why, err = w.drainOnce(); why == nil || err != nil {
			return nil, err
		}
		if !w.hold.drains || w.hold.paused || !time.Now().Before(until) {
			return why, nil // nor does anything end while the VM stands
		}
		timer.Reset(sleeping.Pause(time.Since(begin)))
		select {
		case r := <-w.messages:
			if err := w.obey(r); err != nil {
				return nil, err
			}
		case <-timer.C:
		}
	}
}

// drainOnce serves all once, and says what is still under way; nil: nothing is.
func (w *Worker) drainOnce() (why, err error) {
	if !w.hold.paused { // the queue is the worker's
		if err := w.serveOnce(); err != nil {
			return nil, err
		}
	}
	switch {
	case w.graphs.Captures() > 0:
		return errCaptures, nil
	case !w.standsStill(), w.hold.whole && w.waiting.Len() > 0:
		return errWorks, nil
	}
	return nil, nil
}

// serveOnce does what loop does, but takes commands only as long as a graph is captured.
func (w *Worker) serveOnce() error {
	if w.graphs.Captures() > 0 {
		if _, err := w.runCommands(); err != nil {
			return err
		}
		w.launcher.Flush()
	}
	w.pollWaiters()
	w.hostFuncs.LetGo() // obeying a message holds it
	w.hostFuncs.Advance()
	w.hostFuncs.Hold()
	_, err := w.chains.takeChains()
	w.chains.signal()
	return err
}

// moveOut moves so many bytes of device memory to a new image; without any, all to that which is
// there.
func (w *Worker) moveOut(bytes uint64) error {
	answer := &handover.Message{Kind: handover.KindMovedOut}
	err := w.mayMove()
	switch {
	case err != nil:
	case bytes > 0:
		err = w.suspension.MoveOut(bytes)
	default:
		err = w.suspension.MoveBack()
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return w.control.Send(answer, nil)
}

// moveIn moves it in again.
func (w *Worker) moveIn() error {
	answer := &handover.Message{Kind: handover.KindMovedIn}
	err := w.mayMove()
	if err == nil {
		err = w.suspension.MoveIn()
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return w.control.Send(answer, nil)
}

// mayMove says why memory can't be moved now.
func (w *Worker) mayMove() error {
	if !w.hold.still {
		return errWorks
	}
	return nil
}

// goOn takes commands again. A worker that drains stops doing so.
func (w *Worker) goOn() error {
	if err := w.suspension.End(); err != nil {
		return fmt.Errorf("device process: go on: %w", err)
	}
	w.hold.drains, w.hold.still, w.hold.told = false, false, false
	return nil
}

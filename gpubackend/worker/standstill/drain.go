// SPDX-License-Identifier: Apache-2.0

package standstill

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Drain ends what was begun, in the time that the message allows, and then waits.
func (h *Halt) Drain(m *handover.Message) error {
	answer, asked := &handover.Message{Kind: handover.KindDrained, Turn: m.Turn}, h.masters
	why, busy, err := h.drain(m)
	if err != nil || asked != h.masters {
		return err
	}
	if why != nil {
		answer.Error, answer.Busy = why.Error(), busy
		return h.Send(answer)
	}
	answer.Bytes = h.Memory.Plan(m.Whole)
	if err := h.Send(answer); err != nil {
		return err
	}
	return h.whileHeld()
}

// drain says why the worker isn't drained, and whether its work has gone on for longer than it may.
// One reason is that another device process has taken over.
func (h *Halt) drain(m *handover.Message) (why error, busy bool, err error) {
	if h.still {
		if m.Whole {
			why = h.Program.Unsavable()
		}
		return why, false, nil
	}
	asked := h.masters
	h.drains, h.whole = true, m.Whole
	why, err = h.awaitDrained(time.Now().Add(m.Grace))
	busy = why != nil && !h.begins()
	h.drains, h.whole = false, false
	if err != nil || asked != h.masters {
		return nil, false, err
	}
	if m.Whole { // it has other reasons, and better ones
		why = cmp.Or(h.Program.Unsavable(), why)
	}
	if m.Whole && errors.Is(why, ErrWorks) { // the device process can't tell it from those
		why = fmt.Errorf("busy: %w: stop-grace=%v is how long work may take", why, m.Grace)
	}
	if why == nil {
		h.Gate.Standstill()
		h.still = true
	}
	return why, busy, nil
}

// awaitDrained serves everything but the ring until nothing is under way, or until a time, and says
// why something still is. A capture goes on until its end is in the ring; and a program that is to
// be saved goes on until it has begun.
func (h *Halt) awaitDrained(until time.Time) (why, err error) {
	l := newLooks()
	defer l.timer.Stop()
	h.Launcher.Flush()
	for {
		h.Watchdog.Turn()
		if why, err = h.drainOnce(); why == nil || err != nil {
			return nil, err
		}
		if !h.drains || h.paused || !time.Now().Before(until) {
			return why, nil // nothing ends while the VM stands still
		}
		if err := h.next(l); err != nil {
			return nil, err
		}
		if !h.drains { // it goes on, even if everything has ended since
			return why, nil
		}
	}
}

// drainOnce serves everything once, and says what is still under way; nil: nothing.
func (h *Halt) drainOnce() (why, err error) {
	if !h.paused { // the queue is the worker's
		if err := h.serveOnce(); err != nil {
			return nil, err
		}
	}
	switch {
	case h.Graphs.Captures() > 0:
		return errCaptures, nil
	case !h.StandsStill(), h.begins(), h.whole && h.Calls.Len() > 0:
		return ErrWorks, nil
	case !h.paused && h.answersLate():
		return ErrWorks, h.takeChains()
	}
	return nil, nil
}

// answersLate answers calls whose work has ended since the last look, and says whether there were
// any: while the worker is held, nobody else answers them.
func (h *Halt) answersLate() bool { return h.Calls.Len() > 0 && h.Loop.Poll() }

// begins says whether the program is to be saved, and hasn't begun.
func (h *Halt) begins() bool { return h.whole && !h.Program.Begun() }

// serveOnce does what the loop does, but takes commands only while a graph is being captured, or
// the program begins.
func (h *Halt) serveOnce() error {
	if h.Graphs.Captures() > 0 || h.begins() {
		if err := h.Loop.Execute(); err != nil {
			return err
		}
		h.Launcher.Flush()
	}
	h.Loop.Poll()
	h.advance()
	return h.takeChains()
}

// takeChains serves the queue.
func (h *Halt) takeChains() error {
	_, err := h.Queue.Take()
	h.Queue.Signal()
	return err
}

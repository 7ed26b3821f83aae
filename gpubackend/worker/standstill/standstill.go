// SPDX-License-Identifier: Apache-2.0

// Package standstill has the worker stand still while others use what is the guest's: while its
// queue is the device process's, and while its device memory is moved out and in, or written to a
// record.
//
//	standstill.go why the worker takes no commands, and until when
//	drain.go      what was begun ends, so that memory can be moved
//	pause.go      what was begun ends, so that the guest's memory can be left alone
//	move.go       moves memory, and has the program saved
//
// # What stands still
//
// Meanwhile no command is taken from the ring: the guest's threads wait in it as for a worker that
// is slow. Before that it is drained: what was begun ends, and calls that wait for it are answered,
// so that a stream that waits for the guest has what it waits for. A kernel may go on for longer
// than the device process wants to wait; then the worker goes on as if it hadn't been asked.
//
// # Who owns what
//
// The worker's loop owns a Halt, and gives it the messages that are meant for it. While the
// worker is held, it reads the messages itself, and has each obeyed: the loop is in one of
// its calls then.
//
// # Who may lie
//
// The device process is believed. One that has died may have asked for a pause or a drain that
// still waits for work to end: that is given up when the next one takes over, and answered to
// nobody.
package standstill

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/gpubackend/worker/sleeping"
)

// Driver is what a Halt uses of gpubackend.Driver.
type Driver interface {
	ContextQuery() gpubackend.Result
	// AwaitsHost says whether all that goes on waits for a host function.
	AwaitsHost() bool
}

// Contexts makes a context current.
type Contexts interface {
	Set(handle uint64, optional bool) gpubackend.Result
}

// Copies are copies, which Poll looks after.
type Copies interface {
	Poll()
	Active() bool
}

// Calls are calls that wait.
type Calls interface{ Len() int }

// HostFuncs are host functions, which are held while the guest's memory is left alone.
type HostFuncs interface {
	Hold()
	LetGo()
	Advance() (moved bool)
}

// Launcher has launches that the device doesn't have yet.
type Launcher interface{ Flush() }

// Graphs are the guest's graphs.
type Graphs interface{ Captures() int }

// Gate is told that all work has ended.
type Gate interface{ Standstill() }

// Memory is device memory, which is moved.
type Memory interface {
	Plan() uint64
	// MoveOut says how much it didn't need to copy. With keep it may keep the image that it makes
	// when the worker goes on, and Keeps says whether it will.
	MoveOut(bytes uint64, keep bool) (unchanged uint64, err error)
	Keeps() bool
	MoveBack() error
	MoveIn() error
	End() error
}

// Program is what is saved.
type Program interface {
	Unsavable() error
	// Save writes it, if ahead without the device memory that was copied before, and hasn't
	// changed.
	Save(to io.Writer, rest savedvm.Rest) error
}

// Sleeper waits for the guest.
type Sleeper interface {
	AwaitKick() (commands bool, err error)
}

// Config is what a Halt needs.
type Config struct {
	Driver    Driver
	Contexts  Contexts
	Objects   *object.Table
	Copies    Copies
	Calls     Calls
	HostFuncs HostFuncs
	Launcher  Launcher
	Graphs    Graphs
	Gate      Gate
	Memory    Memory
	Program   Program
	Sleeper   Sleeper

	// Send sends the device process a message.
	Send func(m *handover.Message) error
	// Messages are those of the device process, and Obey obeys one.
	Messages func() <-chan inbox.Received
	Obey     func(inbox.Received) error
	// Poll answers calls whose wait is over, and says whether there were any.
	Poll func() (answered bool)
	// Execute executes what is in the ring.
	Execute func() error
	// TakeChains serves the queue.
	TakeChains func() error
	// Turn is called in each turn, and Asleep is set while there is nothing to do.
	Turn   func()
	Asleep *atomic.Bool
	// Begin is called when the worker begins to be held, and Paused when nothing writes to the
	// guest's memory any more.
	Begin, Paused func()
}

// Halt is why the worker takes no commands.
type Halt struct {
	Config
	hold
}

// hold is the reasons.
type hold struct {
	paused bool // the device process has its queue
	drains bool // what was begun is to end
	whole  bool // calls that wait, too
	still  bool // it has, and the device process may move memory
	waits  bool // whileHeld runs
	told   bool // the device process knows that there is work

	masters uint64 // how many device processes have taken the worker over
}

// New returns a Halt of a worker that isn't held.
func New(c Config) *Halt { return &Halt{Config: c} }

// Free says whether there is no reason to take no commands.
func (h *Halt) Free() bool {
	return h.hold == hold{masters: h.masters}
}

// Drains says whether what was begun is to end, and nothing else to be begun.
func (h *Halt) Drains() bool { return h.drains }

// Start waits, where the worker starts while its VM is suspended, or paused: then it gets its queue
// and the guest's memory later.
func (h *Halt) Start(held, paused bool) error {
	h.paused = paused
	if h.still = held; held {
		h.tellWork()
	}
	return h.whileHeld()
}

// whileHeld obeys the device process, and does nothing else until it may go on.
func (h *Halt) whileHeld() error {
	if h.waits {
		return nil // the one that runs goes on
	}
	h.waits = true
	h.Begin()
	h.Asleep.Store(true)
	defer func() {
		h.waits = false
		h.Asleep.Store(false)
	}()
	for h.paused || h.still {
		if !h.paused && !h.told && len(h.Messages()) == 0 {
			if err := h.awaitWork(); err != nil {
				return err
			}
			continue
		}
		if err := h.Obey(<-h.Messages()); err != nil {
			return err
		}
	}
	return nil
}

// awaitWork waits until the program of a worker that is held has work, which the device process
// doesn't know of, and tells it; or until there is a message. A call that waits is work: of a copy
// the rest is to be begun, say.
func (h *Halt) awaitWork() error {
	if h.Calls.Len() > 0 {
		h.tellWork()
		return nil
	}
	work, err := h.Sleeper.AwaitKick()
	if work {
		h.tellWork()
	}
	return err
}

// tellWork tells the device process.
func (h *Halt) tellWork() {
	h.told = h.Send(&handover.Message{Kind: handover.KindWake}) == nil
}

// Resume says that the queue is the worker's again. It wasn't if that is false.
func (h *Halt) Resume() (paused bool) {
	paused, h.paused = h.paused, false
	return paused
}

// GoOn has commands taken again. A worker that drains stops doing so.
func (h *Halt) GoOn() error {
	if err := h.Memory.End(); err != nil {
		return fmt.Errorf("device process: go on: %w", err)
	}
	h.drains, h.still, h.told = false, false, false
	return nil
}

// TakeOver says how the worker is held to another device process, which asks again for what the one
// before has asked for.
func (h *Halt) TakeOver() (paused, still bool) {
	h.masters++
	h.drains, h.told = false, false // it may not have been told of work
	return h.paused, h.still
}

// looks is the pauses between looks at what is under way, in which messages are obeyed. They grow
// with the time that this takes.
type looks struct {
	begin time.Time
	timer *time.Timer
}

func newLooks() *looks { return &looks{time.Now(), time.NewTimer(0)} }

// next waits until the next look.
func (h *Halt) next(l *looks) error {
	l.timer.Reset(sleeping.Pause(time.Since(l.begin)))
	select {
	case r := <-h.Messages():
		return h.Obey(r)
	case <-l.timer.C:
	}
	return nil
}

// ErrWorks is why a worker can't be drained.
var ErrWorks = errors.New("its work goes on")

// errCaptures is another reason: copies would end the capture.
var errCaptures = errors.New("it captures a graph")

// StandsStill says whether nothing that was begun for the guest goes on: no chunk of a copy is on
// its way, and every context is idle. Of a copy in several chunks the rest is begun after the
// pause.
func (h *Halt) StandsStill() bool {
	h.Copies.Poll()
	if h.Copies.Active() {
		return false
	}
	for context := range h.Objects.All(object.Context) {
		if h.Contexts.Set(context, true) == gpubackend.Success &&
			h.Driver.ContextQuery() == gpubackend.NotReady {
			return false
		}
	}
	return true
}

// advance has host functions go on, which obeying a message holds.
func (h *Halt) advance() {
	h.HostFuncs.LetGo()
	h.HostFuncs.Advance()
	h.HostFuncs.Hold()
}

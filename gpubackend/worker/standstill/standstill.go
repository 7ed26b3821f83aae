// SPDX-License-Identifier: Apache-2.0

// Package standstill makes the worker stand still while others use what is the guest's: while the
// device process has its queue, and while its device memory is moved out and in, or written to a
// record.
//
//	standstill.go  why the worker takes no commands, and until when
//	drain.go       what was begun ends, so that memory can be moved
//	pause.go       what was begun ends, so that the guest's memory isn't touched
//	move.go        moves memory, and saves the program
//
// # What stands still
//
// Meanwhile no command is taken from the ring: the guest's threads wait as for a slow worker.
// Before that it is drained: what was begun ends, and calls that wait for it are answered, so that
// a stream that waits for the guest has what it waits for. A kernel may go on for longer than the
// device process wants to wait; then the worker goes on as if it hadn't been asked.
//
// # Who owns what
//
// The worker's loop owns a Halt, and gives it the messages that are meant for it. While the worker
// is held, the loop is in a call of the Halt, which reads the messages itself and obeys each.
//
// # Who may lie
//
// The device process is believed. One that has died may have asked for a pause or a drain that
// still waits for work to end: when the next one takes over, that is given up and never answered.
package standstill

import (
	"errors"
	"fmt"
	"io"
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
	// AwaitsHost says whether everything that is under way waits for a host function.
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

// HostFuncs are host functions, which are held while the guest's memory must not be touched.
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
	// Plan says how much can be moved, or, with whole, saved.
	Plan(whole bool) uint64
	// MoveOut returns how much it didn't need to copy. With keep it may keep its image when the
	// worker goes on; Keeps says whether it will.
	MoveOut(bytes uint64, keep bool) (unchanged uint64, err error)
	Keeps() bool
	MoveBack() error
	MoveIn() error
	End() error
}

// Program is what is saved.
type Program interface {
	// Begun says whether the guest process has begun to use the GPU. Until then it can't be saved.
	Begun() bool
	Unsavable() error
	// Save writes it; if ahead, without the device memory that was copied before and hasn't
	// changed.
	Save(to io.Writer, rest savedvm.Rest) error
}

// Sleeper waits for the guest.
type Sleeper interface {
	AwaitKick() (commands bool, err error)
}

// Queue is the channel's queue, which is served while the worker drains.
type Queue interface {
	Take() (took bool, err error)
	Signal()
}

// Pages are the guest's that may be written to. MarkHeld is called when none is any more.
type Pages interface{ MarkHeld() }

// Watchdog looks whether the worker hangs.
type Watchdog interface {
	Turn()
	// SetAsleep says whether there is nothing to do.
	SetAsleep(yes bool)
}

// Duties are what a Halt does in the place of the worker's loop, which waits for it.
type Duties struct {
	// Messages are the messages of the device process, and Obey obeys one.
	Messages func() <-chan inbox.Received
	Obey     func(inbox.Received) error
	// Poll answers calls whose wait is over, and says whether there were any.
	Poll func() (answered bool)
	// Execute executes what is in the ring.
	Execute func() error
	// Begin is called when the worker begins to be held.
	Begin func()
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
	Queue     Queue
	Pages     Pages
	Watchdog  Watchdog
	Loop      Duties
	// Send sends the device process a message.
	Send func(m *handover.Message) error
}

// Halt is why the worker takes no commands.
type Halt struct {
	Config
	hold
}

// hold is the reasons why the worker is held.
type hold struct {
	paused bool // the device process has its queue
	drains bool // what was begun is to end
	whole  bool // waiting calls, too
	still  bool // it has ended, and the device process may move memory
	waits  bool // whileHeld runs
	told   bool // the device process knows that there is work

	masters uint64 // how many device processes have taken the worker over
}

// New returns a Halt of a worker that isn't held.
func New(c Config) *Halt { return &Halt{Config: c} }

// Free says whether the worker may take commands.
func (h *Halt) Free() bool {
	return h.hold == hold{masters: h.masters}
}

// Drains says whether what was begun must end, and nothing else may begin.
func (h *Halt) Drains() bool { return h.drains }

// Start waits if the worker starts while its VM is suspended, or paused, in which case it gets its
// queue and the guest's memory later.
func (h *Halt) Start(held, paused bool) error {
	h.paused = paused
	if h.still = held; held {
		h.tellWork()
	}
	return h.whileHeld()
}

// whileHeld only obeys the device process, until the worker may go on.
func (h *Halt) whileHeld() error {
	if h.waits {
		return nil // the call that runs goes on
	}
	h.waits = true
	h.Loop.Begin()
	h.Watchdog.SetAsleep(true)
	defer func() {
		h.waits = false
		h.Watchdog.SetAsleep(false)
	}()
	for h.paused || h.still {
		if !h.paused && !h.told && len(h.Loop.Messages()) == 0 {
			if err := h.awaitWork(); err != nil {
				return err
			}
			continue
		}
		if err := h.Loop.Obey(<-h.Loop.Messages()); err != nil {
			return err
		}
	}
	return nil
}

// awaitWork waits until the program of a held worker has work of which the device process doesn't
// know, and tells it; or until there is a message. A waiting call is work: the rest of a copy may
// have to be begun, for example.
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

// Resume says that the queue is the worker's again; false: it was before.
func (h *Halt) Resume() (paused bool) {
	paused, h.paused = h.paused, false
	return paused
}

// GoOn lets commands be taken again. A draining worker stops draining.
func (h *Halt) GoOn() error {
	if err := h.Memory.End(); err != nil {
		return fmt.Errorf("device process: go on: %w", err)
	}
	h.drains, h.still, h.told = false, false, false
	return nil
}

// TakeOver tells another device process how the worker is held. That process asks again for what
// the previous one wanted.
func (h *Halt) TakeOver() (paused, still bool) {
	h.masters++
	h.drains, h.told = false, false // the new one may not know of work
	return h.paused, h.still
}

// looks are the pauses between looks at what is under way, in which messages are obeyed. They grow
// with the time that has passed.
type looks struct {
	begin time.Time
	timer *time.Timer
}

func newLooks() *looks { return &looks{time.Now(), time.NewTimer(0)} }

// next waits until the next look.
func (h *Halt) next(l *looks) error {
	l.timer.Reset(sleeping.Pause(time.Since(l.begin)))
	select {
	case r := <-h.Loop.Messages():
		return h.Loop.Obey(r)
	case <-l.timer.C:
	}
	return nil
}

// ErrWorks is the reason why a worker can't be drained.
var ErrWorks = errors.New("its work goes on")

// errCaptures is another reason: copies would end the capture.
var errCaptures = errors.New("it captures a graph")

// StandsStill says whether nothing that was begun for the guest is under way: no chunk of a copy
// is, and every context is idle. The rest of a copy in several chunks is begun after the pause.
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

// advance lets host functions go on, which are held while a message is obeyed.
func (h *Halt) advance() {
	h.HostFuncs.LetGo()
	h.HostFuncs.Advance()
	h.HostFuncs.Hold()
}

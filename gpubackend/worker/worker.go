// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/dirty"
	"github.com/paracuda/paracuda/gpubackend/worker/failure"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
	"github.com/paracuda/paracuda/gpubackend/worker/queue"
	"github.com/paracuda/paracuda/gpubackend/worker/sleeping"
	"github.com/paracuda/paracuda/gpubackend/worker/watchdog"
	"github.com/paracuda/paracuda/internal/fix"
)

// Worker serves one channel.
type Worker struct {
	log      *logrus.Entry
	driver   gpubackend.Driver
	gpu      string
	host     *budget.Budget  // of the host's memory
	images   *atomic.Uint64  // bytes of it that moved-out device memory has
	accounts *ledger.Process // of device memory
	dial     func(link.Half) (moves.Mover, error)
	policy   handover.Policy
	state    *handover.State

	gate      *gate.Page // nil: the GPU may always be given work
	gateEntry int        // the worker's

	files    *sleeping.Files
	control  *handover.Conn
	messages chan inbox.Received
	early    []inbox.Received // came before the inbox is read
	offers   *offers.Offers
	asks     bool // for what it maps of the guest's memory

	queue   *queue.Queue
	dirty   dirty.Pages // pages of the guest's that are written to
	arena   *arena.Arena
	objects object.Table

	warm     bool // the driver was initialised before there was a guest process
	command  arena.Command
	table    call.Table
	current  call.Call
	buffers  call.Buffers
	failure  failure.Failure
	watchdog *watchdog.Watchdog

	lost error // why the program can't go on from a record; nil: it can

	rooms
}

// errStopped ends the loop in an orderly way.
var errStopped = errors.New("stopped")

// Config is what a worker needs besides the messages of the device process.
type Config struct {
	Control *handover.Conn
	// NewDriver makes the device that the start message names. The host's memory that the guest
	// makes it take counts for host, device memory for accounts.
	NewDriver func(
		gpu string, p handover.Policy, host *budget.Budget, accounts *ledger.Process,
	) (gpubackend.Driver, error)
	// NewMover takes over the connection to the mover.
	NewMover func(link.Half) (moves.Mover, error)
	// Confine is called when everything is open and loaded, before this process hears of a guest
	// process.
	// What it returns lets the device process decide on what is mapped of the guest's memory; -1:
	// nothing does, since missing. May be nil.
	Confine func(gpu string) (listener int, missing, err error)
	Log     *logrus.Entry
}

// Run serves the channel that the device process hands over, until it is told to stop or the guest
// breaks the rules of the queue. The calling goroutine must be locked to its thread.
func Run(c Config) error {
	m, fds, err := c.Control.Receive()
	if err != nil {
		return fmt.Errorf("receive the channel: %w", err)
	}
	dog := &watchdog.Watchdog{}
	defer dog.Start(c.Log)()
	var done ahead
	counts := newCounted()
	defer dog.GuardMemory(counts.host.Limit, counts.images.Load)()
	if m.Kind == handover.KindWarm {
		if done, m, fds, err = warmUp(c, m, fds, counts, dog); err != nil {
			return err
		}
	} else {
		done = newAhead()
	}
	if m.Kind != handover.KindStart || m.Queue == nil && !m.Saved || m.Policy == nil {
		return fmt.Errorf("receive the channel: unexpected message %q", m.Kind)
	}
	w, err := newWorker(c, m, fds, done, counts, dog)
	if err != nil {
		_ = c.Control.Send(&handover.Message{Kind: handover.KindReady, Error: err.Error()}, nil)
		return err
	}
	defer w.close()
	defer w.dirty.Close()
	if m.Saved {
		n := m.Name(fds)
		if err := restoreFrom(w.saving, n.Lanes, n.Image, m.Filed); err != nil {
			err = fmt.Errorf("take up what was saved: %w", err)
			_ = c.Control.Send(&handover.Message{Kind: handover.KindReady, Error: err.Error()}, nil)
			return err
		}
	}
	w.state.Serves()
	if err := c.Control.Send(&handover.Message{Kind: handover.KindReady}, nil); err != nil {
		return err
	}
	in := &inbox.Inbox{Conn: w.control, Early: w.early, To: w.messages, Wake: w.files.Wake,
		AtOnce: func(m *handover.Message, fds []int) (bool, error) {
			return w.atOnce(m, fds)
		}}
	w.offers.Listens()
	go func() {
		in.Read()
		w.offers.End()
	}()
	sleeping.Sharply()
	if err = w.standstill.Start(m.Held, m.Queue == nil); err == nil {
		if err = w.lost; err == nil {
			err = w.loop()
		}
	}
	switch {
	case errors.Is(err, errStopped):
		return nil
	case errors.Is(err, errCold):
		w.log.Debug(err)
		w.state.AskCold()
		return nil
	}
	return err
}

// sayFull logs why the program is told that it is out of memory.
func (w *Worker) sayFull(most int) {
	w.log.WithField("mappings", most).Warn("the program has pinned and reserved memory in as " +
		"many pieces as this process may map: it is out of memory: " + fix.Mappings)
}

// newWorker takes a channel over.
func newWorker(
	c Config, m *handover.Message, fds []int, done ahead, counts counted, dog *watchdog.Watchdog,
) (*Worker, error) {
	n := m.Name(fds)
	limitHost(counts.host, m.Policy.HostBytes(m.GPU))
	w := &Worker{
		gpu: m.GPU, host: counts.host, images: counts.images,
		accounts: counts.device,
		driver:   done.driver, warm: done.driver != nil, watchdog: dog, dial: c.NewMover,
		log: c.Log.WithFields(logrus.Fields{"channel": m.Channel, "guest_pid": m.PID,
			"program": m.Comm}),
		policy: *m.Policy, control: c.Control, messages: make(chan inbox.Received, 1),
		offers: offers.New(c.Control),
	}
	dog.Log(w.log)
	w.log.Debug("serves a program")
	w.objects.Memory = counts.host
	w.places = done.places
	w.places.WhenFull(w.sayFull)
	var err error
	if w.files, err = sleeping.NewFiles(n.Kick); err != nil {
		return nil, err
	}
	if w.state, err = handover.OpenState(n.State); err != nil {
		return nil, err
	}
	if err := w.dirty.Take(m, n.Log); err != nil {
		return nil, err
	}
	w.queue = queue.New(queue.Config{
		State: w.state, Host: w.host, Dirty: &w.dirty, Call: n.Call, Log: w.log,
		Attach: func(a *arena.Arena) { w.arena = a },
	})
	if err = counts.join(m.Entry, n.Ledger); err != nil {
		return nil, err
	}
	if !w.warm {
		if w.driver, err = c.NewDriver(m.GPU, *m.Policy, counts.host, counts.device); err != nil {
			return nil, err
		}
	}
	w.gateEntry = m.Entry
	if w.gate, err = openGate(m.Entry, n.Gate); err != nil {
		return nil, err
	}
	w.assemble()
	guest, files, err := w.confine(&c, done.confined, m, n.Memory)
	if err != nil {
		return nil, err
	}
	if err := w.startQueue(m.Queue, guest, files); err != nil {
		return nil, err
	}
	return w, nil
}

// startQueue starts the channel's queue, if the driver has started it, in the guest's memory.
func (w *Worker) startQueue(q *handover.Queue, guest *handover.Message, files []int) error {
	if q == nil {
		handover.CloseFiles(files)
		return nil
	}
	mem, err := guest.Map(files)
	if err != nil {
		return fmt.Errorf("map guest memory: %w", err)
	}
	return w.queue.Start(mem, q)
}

// rareTurns is how many turns of the loop pass between looks at what changes rarely: chains,
// messages, the clock. In each turn they would cost more than the look at the ring.
const rareTurns = 32

// loop runs until the channel ends.
func (w *Worker) loop() error {
	for turn := uint32(0); ; turn++ {
		busy, err := w.runCommands()
		if err != nil {
			return err
		}
		if w.pollWaiters() {
			busy = true
		}
		if busy {
			w.sleeping.Stir()
		}
		if w.arena != nil && (busy || !w.sleeping.Linger()) && turn%rareTurns != 0 {
			continue
		}
		rare, err := w.lookAround()
		if err != nil {
			return err
		}
		if busy || rare {
			w.sleeping.Stir()
		} else if err := w.sleeping.Rest(); err != nil {
			return err
		}
	}
}

// lookAround does everything besides commands and waiting calls, and says whether there was
// anything to do.
func (w *Worker) lookAround() (busy bool, err error) {
	w.watchdog.Turn()
	w.tellFixed()
	took, err := w.queue.Take()
	if err != nil {
		return took, err
	}
	w.queue.Signal()
	select {
	case r := <-w.messages:
		return true, w.handle(r)
	default:
	}
	return took, nil
}

func (w *Worker) close() {
	w.offers.End() // nobody needs to know which ones end
	w.hostFuncs.Close()
	w.sharing.Close()
	w.memory.Close()
	w.pools.Close()
	w.exports.Close()
	w.precopied.End()
	if w.driver != nil {
		w.driver.Close()
	}
	w.queue.Close()
	if w.gate != nil {
		w.gate.Close()
	}
}

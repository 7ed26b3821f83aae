// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"errors"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Assignment is a channel whose queue is about to go to a worker. Assign gives it to give, for the
// time of that call.
type Assignment struct {
	t       *Table
	c       *channel
	program workers.Program
	bare    bool            // the worker gets neither queue nor memory yet
	told    *workers.Worker // that is about to get it
}

// Runs says whether the queue runs.
func (a *Assignment) Runs() bool { return a.c.queue.Runs() }

// Worker is the worker that has the queue; nil: none.
func (a *Assignment) Worker() *workers.Worker { return a.c.worker }

// Cold is the program for which a worker is to be started; nil: none.
func (a *Assignment) Cold() *workers.Program { return a.c.cold }

// Base is where the queue begins.
func (a *Assignment) Base() uint16 { return a.c.queue.Base() }

// Taken is how many channels guest processes have.
func (a *Assignment) Taken() uint32 { return a.t.taken() }

// Start begins the message that gives a worker the queue, and the memory in which it notes what it
// takes. saved says that it goes on for a worker that is gone: with the chains that this one held,
// or, with anew, with what the driver has made available again. From now on the worker may have
// touched the guest's pages.
func (a *Assignment) Start(w *workers.Worker, saved, anew bool) (*handover.Message, []int) {
	w.Serve(a.c.index, a.program)
	a.told = w
	m, fds := a.c.queue.Message(handover.KindStart, nil)
	w.HasRings(m.Queue)
	if saved {
		m.Saved, m.Queue.InFlight, m.Queue.Anew = true, a.c.queue.Held(), anew
	}
	m.Channel, m.Files.State = a.c.index, true
	w.State(func(s *handover.State) { // which isn't closed before Ended has been here
		a.c.queue.Assign(s)
		fds = append(fds, s.FD())
	})
	return m, fds
}

// StartBare is Start for a program that comes before the guest's memory and its queue: the worker
// gets both when the queue starts. Until then it counts as paused (Arrived).
func (a *Assignment) StartBare(w *workers.Worker) (*handover.Message, []int) {
	w.Serve(a.c.index, a.program)
	a.told, a.bare = w, true
	m, fds := &handover.Message{Kind: handover.KindStart, Saved: true}, []int(nil)
	m.Channel, m.Files.State = a.c.index, true
	w.State(func(s *handover.State) { fds = append(fds, s.FD()) }) // as with Start
	return m, fds
}

// Assign gives a channel's queue to the worker that give returns, for which give has called Start.
// It serves the program only when Serves says so. After an error the queue stays where it is.
func (t *Table) Assign(
	index int, p workers.Program, give func(*Assignment) (*workers.Worker, error),
) (*workers.Worker, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	a := &Assignment{t: t, c: c, program: p}
	w, err := give(a)
	if err != nil {
		if a.told != nil {
			a.told.Begun() // it can't
		}
		return nil, err
	}
	c.bare, c.unmet, c.unasked, c.begins = a.bare, false, false, false
	c.touch()
	c.worker, c.base, c.serves, c.paused, c.cold = w, c.queue.Base(), false, nil, nil
	return w, nil
}

// Free says whether a channel's queue runs and nobody has it.
func (t *Table) Free(index int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	return c.queue.Runs() && c.worker == nil
}

// Awaited says whether a worker is about to be started for a channel.
func (t *Table) Awaited(index int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list[index].cold != nil
}

// AnyAwaited says whether a worker is about to be started for any channel.
func (t *Table) AnyAwaited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.list, func(c *channel) bool { return c.cold != nil })
}

// Arrived is told that a worker that started bare has its program. It counts as paused, at the
// position that it gives for its queue.
func (t *Table) Arrived(w *workers.Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.list[w.Channel()]; c.worker == w {
		c.queue.PausedAt(w.Base())
		w.State(c.queue.Assign)
		c.paused = paused
	}
}

// paused is a closed channel, for workers that begin as paused.
var paused = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

var errEnded = errors.New("the worker ended")

// Serves is told that a worker serves its channel, or why not. From then on, if it ends, its queue
// goes back to the driver, or to another worker. An error says that it doesn't serve the channel.
func (t *Table) Serves(w *workers.Worker, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[w.Channel()]
	if c.worker == w {
		if c.serves = err == nil; c.serves {
			t.config.Serves(w, c.base)
		}
	} else if err == nil {
		err = errEnded
	}
	w.Begun()
	return err
}

// Leave calls left if the worker still has its channel, which then goes to no other one. It doesn't
// if the channel is being closed: nobody forgets its program after that.
func (t *Table) Leave(w *workers.Worker, left func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := w.Channel(); i >= 0 && t.list[i].worker == w && !w.Retired() {
		w.Retire()
		left()
	}
}

// Ended takes back the queue of a worker that has ended with err, if it had one. Until it returns,
// the worker's notes can be read. It returns whether a cold one is to take the worker's place.
func (t *Table) Ended(w *workers.Worker, err error) (cold bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	child.SayEnded(w.Log(), "worker", err, w.Killed())
	i := w.Channel()
	if i < 0 {
		return false
	}
	c := t.list[i]
	t.ended.Add(w.Counters())
	if c.worker != w { // the queue is another driver's by now
		return false
	}
	c.worker, c.paused = nil, nil
	if !c.serves {
		return false // who started it takes the next step
	}
	if c.goesOnCold(w) {
		return true
	}
	t.config.RAM.Use(func(mem *guestmem.Memory) {
		w.State(func(s *handover.State) { c.queue.Leave(s, mem) })
		c.reclaim(mem)
	})
	return false
}

// goesOnCold starts a cold worker in the place of a warm one that ended because it didn't suit its
// program; false if that isn't so. The guest doesn't notice: the queue and the command ring are
// read from where they began.
func (c *channel) goesOnCold(w *workers.Worker) bool {
	if !c.wantsCold(w) {
		return false
	}
	c.queue.Rewind(c.base)
	if p := w.Program(); c.stopping || !c.queue.Runs() {
		c.cold = &p // for when the queue goes on
	} else {
		c.beginCold(&p)
	}
	return true
}

// wantsCold says whether a worker that has ended leaves its channel to a cold one, since its
// program has CUDA variables with which it was not started (handover.State.AskCold). That is
// believed only of a worker that has returned no chain, and was warm, or was taken over as it began
// in the place of such a one.
func (c *channel) wantsCold(w *workers.Worker) (cold bool) {
	w.State(func(s *handover.State) {
		cold = (w.Ahead || c.begins) && !w.Retired() && s.AskedCold() && s.ReturnedNone(c.base)
	})
	return cold
}

// beginCold starts the cold worker of a program whose warm one is gone.
func (c *channel) beginCold(p *workers.Program) {
	c.cold = p
	c.config.Cold(c.index, p)
}

// ColdFailed is told that the cold worker of a program can't be started. Unless another one is
// started, now or when the queue goes on, the program loses its queue, and the result is true.
func (t *Table) ColdFailed(index int, p *workers.Program) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[index]
	if c.cold != nil && c.cold != p || c.cold == p && !c.queue.Runs() {
		return false
	}
	c.cold = nil
	c.reclaimNow()
	return true
}

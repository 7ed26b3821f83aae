// SPDX-License-Identifier: Apache-2.0

// Package channels has the channels of a VM: each is a place for one guest process, with a queue
// (package queues) and while it is open a worker (package workers). It hands queues to workers,
// lets them pause and go on with the VM, and takes the queues back.
//
// # Who owns what
//
// A Table has one lock, which its methods take, and which is never held while waiting. Methods of a
// channel are called with it held. A channel's queue belongs to its worker while there is one, else
// to this process. Under the lock it calls package ram, Config.Lingering, Saved, Strangers, Cold
// and Serves, and Assign's function, which must neither call a Table nor wait. All else of Config
// is called without it.
//
// # Who may lie
//
// Guest, front end and workers, all of them. A queue that makes no sense is left alone, and a
// worker that doesn't pause is killed. What a worker held is returned to the guest from the record
// that it shares (handover.State); that it wants to begin anew is believed only if it has returned
// nothing.
//
// # Files
//
//	channels.go    what can be asked of all channels
//	life.go        a queue starts and stops
//	assign.go      a worker gets a queue, and leaves it
//	standstill.go  workers pause and go on with the VM
//	filed.go       queues of programs that are in a file
//	takeover.go    workers of the device process before this one
//	owed.go        chains go back to the driver
//	ends.go        channels are closed, and drivers go
package channels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/vhostuser"
)

// Saved knows which channels' programs are in a file. They have no worker: one will go on where the
// queue is.
type Saved interface {
	Has(channel int) bool
	// Forget is told that a channel's driver is gone, or begins anew.
	Forget(channel int)
}

// Strangers returns the requests of drivers that aren't ours: strangers.Watch.
type Strangers interface {
	Begin(channel int, kicks func() (*vhostuser.Waiter, error))
	End(channel int)
}

// Config is what a Table needs of its VM.
type Config struct {
	Channels int
	RAM      *ram.RAM
	Saved    Saved
	// Strangers is told of each queue that starts or stops.
	Strangers Strangers
	// Lingering are closed when movers that were killed and don't end have ended: for them the GPU
	// may write to pages.
	Lingering func() []<-chan struct{}
	// Idle is closed when no device memory is being moved.
	Idle func() <-chan struct{}
	// Grace is how long work may go on when the VM stops.
	Grace func() time.Duration
	// Cold starts a worker for a program, without waiting. If it can't, it calls ColdFailed with
	// that program.
	Cold func(channel int, p *workers.Program)
	// Serves is told of a worker that serves its channel, and where its queue began.
	Serves func(w *workers.Worker, base uint16)
	// Park waits, for a request of the guest's, for something that may never come.
	Park    func(end <-chan struct{})
	Exit    time.Duration    // that a process may take to be gone when it is killed
	Remains *remains.Remains // for the device process after this one; nil: none comes
	// Guard runs a part of this package, and survives its faults.
	Guard func(part string, f func()) bool
	Log   *logrus.Entry
}

// Table are the channels of a VM.
type Table struct {
	config Config

	mu    sync.Mutex
	list  []*channel        // guarded by mu, as is what follows
	ended handover.Counters // of workers that are gone
}

// channel is one of them. All of it is guarded by Table.mu.
type channel struct {
	config *Config
	index  int
	queue  *queues.Queue // is stopped, or runs
	owed   bool          // its chains go back when no mover lingers that may have their pages
	worker *workers.Worker
	serves bool   // it does, and
	base   uint16 // where its queue began
	bare   bool   // it has neither queue nor memory yet

	unmet   bool // it was taken over, and hasn't reported its position yet
	unasked bool // it was taken over, and the channel's OPEN may come once more
	begins  bool // it was taken over as it began in the place of a warm one
	// a worker is to be started for it, now or when the queue goes on where it began
	cold *workers.Program

	// a worker, also one of the device process before this one, may have had it since its chains
	// were last given back, or its driver began
	touched bool
	// ends of movers that lingered before that worker came: they can't have the channel's pages
	spared []<-chan struct{}

	// closed when the worker, which was told to pause, has or is gone; nil: it wasn't told
	paused   chan struct{}
	stopping bool // the queue is about to stop
}

// New makes the channels of a VM. Their queues are stopped.
func New(c Config) *Table {
	t := &Table{config: c}
	for i := range c.Channels {
		t.list = append(t.list, &channel{config: &t.config, index: i, touched: true,
			queue: queues.New(i, c.Remains, c.Log)})
	}
	return t
}

// Len is how many there are.
func (t *Table) Len() int { return t.config.Channels }

// Worker is that of a channel; nil: it has none.
func (t *Table) Worker(index int) *workers.Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list[index].worker
}

// Serving are the workers that have a channel.
func (t *Table) Serving() []*workers.Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.serving()
}

func (t *Table) serving() (list []*workers.Worker) {
	for _, c := range t.list {
		if c.worker != nil {
			list = append(list, c.worker)
		}
	}
	return list
}

// Used says whether a program uses the GPU, or is about to.
func (t *Table) Used() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.list {
		if c.used() {
			return true
		}
	}
	return false
}

func (c *channel) used() bool { return c.worker != nil || c.cold != nil }

// taken is how many channels guest processes have.
func (t *Table) taken() (n uint32) {
	for _, c := range t.list {
		if c.used() || c.config.Saved.Has(c.index) {
			n++
		}
	}
	return n
}

// Counters adds up what all workers have counted, including those that are gone.
func (t *Table) Counters() handover.Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.ended
	for _, w := range t.serving() {
		sum.Add(w.Counters())
	}
	return sum
}

// Stays says what keeps the program of a channel from being saved, or moved.
func (t *Table) Stays() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.list {
		if err := c.stays(); err != nil {
			return err
		}
	}
	return nil
}

func (c *channel) stays() error {
	switch w := c.worker; {
	case w != nil && w.Stuck():
		return errors.New("a worker that was killed does not end")
	case w != nil:
		if counts := w.Fixed(); counts != nil {
			return fmt.Errorf("%v has state that can't be made again: %s: end it first", w,
				strings.Join(slices.Sorted(maps.Keys(counts)), ", "))
		}
	case c.cold != nil:
		return fmt.Errorf("%v begins just now to use the GPU", c.cold)
	case c.owed:
		return errors.New("a mover that was killed does not end")
	}
	return nil
}

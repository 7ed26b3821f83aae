// SPDX-License-Identifier: Apache-2.0

// Package queue has the virtqueue of a worker: what the guest's kernel made available in it (one
// arena, chains to signal with, mapped pages), and what goes back.
//
// # Who owns what
//
// The worker's loop owns a Queue, with one exception: while it is in a driver call, another
// goroutine may have to wake the guest (WakeSleepers). So one lock guards all of a Queue, its kept
// maps and its lists. Methods take it, except those that only access guest memory, which only the
// loop calls: Read, Write, FilesOf. The caller of Start, Resume and Move, which change the ring or
// the guest's memory, makes sure that nobody else is in here.
//
// Wherever in here the worker ends, the device process knows from handover.State which chains it
// has. An arena and what holds pages have mappings of their own, and outlive a change of memory.
//
// # Who may lie
//
// The guest's kernel. A chain that makes no sense goes back with nothing written; runs of guest
// memory are copied once and checked, and so are those in a record. How many chains, runs and maps
// there are is bounded (wire.RunsPerMap, wire.KeptMaps), and lists of kept maps count as the host's
// memory that the guest process takes.
//
// # Files
//
//	queue.go   the ring and the guest's memory
//	chains.go  takes chains
//	give.go    gives them back, and wakes the guest
//	kept.go    maps whose chains went back at once
//	lists.go   lists of runs, used again
//	saved.go   what goes to a file, and comes from one
//	anew.go    what was saved comes once more, in a queue that begins anew
package queue

import (
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/dirty"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Config is what a Queue needs.
type Config struct {
	State  *handover.State
	Host   *budget.Budget     // of the host's memory that the guest process takes
	Dirty  *dirty.Pages       // of the guest's, that are written to
	Attach func(*arena.Arena) // is told of the arena
	Call   int                // eventfd that interrupts the guest, -1 for none; it is the Queue's
	Log    *logrus.Entry
}

// Queue is the virtqueue of one channel.
type Queue struct {
	config Config

	mu     sync.Mutex
	ring   *virtqueue.Queue // nil: it has none yet; guarded by mu, as is what follows
	mem    *guestmem.Memory
	where  handover.Queue // where the ring is
	call   int
	arena  *arena.Arena
	runs   []wire.Run   // the arena's
	events []eventChain // EVENT chains
	due    bool         // an EVENT is due
	maps   map[uint32]*maps.Map
	kept   kept
	lists  lists
	owed   *saved.Queue // what goes on when ring and guest memory are known; usually nil
	anew   *anew        // what comes again; usually nil
}

// New returns a Queue without ring and memory.
func New(c Config) *Queue {
	return &Queue{config: c, call: c.Call, maps: map[uint32]*maps.Map{}, kept: kept{host: c.Host}}
}

// Start takes over a ring, in the guest's memory, which is the Queue's from now on.
func (q *Queue) Start(mem *guestmem.Memory, where *handover.Queue) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takes(mem)
	q.mem = mem
	ring, err := newRing(mem, where, where.Base, where.InFlight)
	if err != nil {
		return fmt.Errorf("take over the queue: %w", err)
	}
	q.ring, q.where = ring, *where
	return nil
}

// takes says how a memory that is the Queue's from now on is used.
func (q *Queue) takes(mem *guestmem.Memory) {
	mem.Log(q.config.Dirty.Switch())
	mem.SetRights(vouchers.Rights())
}

func newRing(
	mem *guestmem.Memory, where *handover.Queue, base uint16, inFlight []uint16,
) (*virtqueue.Queue, error) {
	return virtqueue.New(mem, virtqueue.Config{
		Size: where.Size, Desc: where.Desc, Avail: where.Avail, Used: where.Used, Base: base,
		EventIdx: where.EventIdx, MaxChain: wire.ChainMax, InFlight: inFlight,
	})
}

// Resume goes on with the ring, at the position that the device process gives. restored says that
// what was saved is in use from now on.
func (q *Queue) Resume(where *handover.Queue) (restored bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ring, err := newRing(q.mem, where, where.Base, where.InFlight)
	if err != nil {
		return false, fmt.Errorf("take the queue back: %w", err)
	}
	q.closeRing()
	if q.ring, q.where = ring, *where; q.owed == nil {
		return false, nil
	}
	if err := q.begin(); err != nil {
		return false, fmt.Errorf("go on with what was saved: %w", err)
	}
	return true, nil
}

// Move goes on in a new memory table, which is the Queue's from now on.
func (q *Queue) Move(mem *guestmem.Memory) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takes(mem)
	var ring *virtqueue.Queue
	if old := q.ring; old != nil {
		var err error
		ring, err = newRing(mem, &q.where, old.Base(), old.AppendInFlight(nil))
		if err != nil {
			mem.Close()
			return fmt.Errorf("move the queue: %w", err)
		}
	}
	q.closeRing()
	if q.mem != nil {
		q.mem.Close()
	}
	q.ring, q.mem = ring, mem
	return nil
}

// Close lets go of the ring, if there is one.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closeRing()
}

func (q *Queue) closeRing() {
	if q.ring != nil {
		q.ring.Close()
	}
}

// EnableKick makes the guest's driver kick for new chains. It says whether there are some already.
func (q *Queue) EnableKick() (more bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ring.EnableKick()
}

// DisableKick lets it omit that.
func (q *Queue) DisableKick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ring.DisableKick()
}

// SetCall changes how the guest is interrupted, and interrupts it: the front end may have missed
// the last signal of the old descriptor.
func (q *Queue) SetCall(fd int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.call >= 0 {
		unix.Close(q.call)
	}
	if q.call = fd; fd >= 0 {
		eventfd.Notify(fd)
	}
}

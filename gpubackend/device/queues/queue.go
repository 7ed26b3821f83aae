// SPDX-License-Identifier: Apache-2.0

// Package queues has the queue of a channel: while it runs a worker gets it, and what a worker that
// is gone has left in it goes back to the driver.
//
// # Who owns what
//
// A Queue has no lock: its owner (package channels) calls one method of it at a time. The rings
// belong to the worker that the queue was handed to; who calls GiveBack has made sure that it is
// gone, and that the GPU writes to no page of it.
//
// # Who may lie
//
// The guest, whose rings these are, and workers, in what they note of a queue (handover.State).
// Rings that make no sense are left alone. What a worker notes says which chains go back, and no
// more.
//
// # The next process
//
// A device process that dies leaves its queues to the next one (package remains):
//   - of a queue that a worker had, what the worker noted: it is kept from before the worker has
//     the queue until it is known what of it goes back to the driver;
//   - what goes back is first in a record, which is kept until all has;
//   - of a queue with neither, all that was taken was returned: its used index says where it
//     stands;
//   - the control queue has a record while it runs. Requests without an answer are obeyed again.
//
// # Files
//
// queue.go, lease.go (the descriptors), begins.go (whether a driver begins anew), left.go (package
// remains), control.go (the control queue's record).
package queues

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// Why a queue can't do what is asked: it is stopped, or no queue can start.
var (
	ErrNotRunning = errors.New("queue is not running")
	ErrNoMemory   = errors.New("the front end has sent no memory table")
)

// Queue is the queue of a channel.
type Queue struct {
	index   int // of the channel
	remains *remains.Remains
	log     *logrus.Entry

	lease   *Lease           // nil while it is stopped
	started chan struct{}    // closed when it starts; made anew when it stops
	base    uint16           // next avail index, while no worker has the queue
	held    []uint16         // heads that a worker which is gone has left in flight
	record  *inflight.Region // of heads that are to go back; nil: there is none
	unsure  bool             // a worker that is gone may have returned heads without an interrupt
	known   bool             // its position; the front end only says where it once began
	noted   *handover.State  // by a worker of the previous process that is to end; nil: none
	given   *given           // a head that may be the driver's already; nil: there is none
}

// given is the head that a worker was returning when it ended, and the used index then.
type given struct{ head, used uint16 }

// New makes a channel's queue, which is stopped. Without a keeper, remains are nil.
func New(channel int, r *remains.Remains, log *logrus.Entry) *Queue {
	return &Queue{index: channel, remains: r, log: log, started: make(chan struct{})}
}

// Start makes the queue a running one. moved says that it doesn't go on where it stopped.
func (q *Queue) Start(c vhostuser.QueueConfig) (moved bool, err error) {
	l, err := NewLease(c)
	if err != nil {
		return false, err
	}
	if q.known = q.known && c.Resumed; !q.known {
		moved, q.base = q.base != c.Base && !c.Resumed, c.Base
	}
	q.lease = l
	close(q.started)
	return moved, nil
}

// Stop is the reverse of Start.
func (q *Queue) Stop() {
	q.lease.Close()
	q.lease, q.started = nil, make(chan struct{})
}

// Runs says whether it has been started.
func (q *Queue) Runs() bool { return q.lease != nil }

// Started is closed when it starts.
func (q *Queue) Started() <-chan struct{} { return q.started }

// Size is the number of its descriptors.
func (q *Queue) Size() uint16 { return q.lease.queue.Size }

// Base is the next avail index, as far as is known without asking the worker that has the queue.
func (q *Queue) Base() uint16 { return q.base }

// PausedAt notes the position that the worker of the queue has reported.
func (q *Queue) PausedAt(base uint16) { q.base = base }

// SetCall changes the descriptor by which a running queue signals.
func (q *Queue) SetCall(call *vhostuser.FD) error { return q.lease.setCall(call) }

// Kicks is another waiter for the kicks of a running queue.
func (q *Queue) Kicks() (*vhostuser.Waiter, error) {
	dup, err := q.lease.Kick.Dup()
	if err != nil {
		return nil, err
	}
	return dup.Waiter()
}

// Message is the part of a worker's message that is about a running queue, and its files.
func (q *Queue) Message(kind handover.Kind, inFlight []uint16) (*handover.Message, []int) {
	c := q.lease.queue
	c.Base, c.InFlight = q.base, inFlight
	m := &handover.Message{Kind: kind, Queue: &c, Files: handover.Files{Kick: true}}
	fds := []int{q.lease.Kick.Int()}
	if q.lease.Call != nil {
		m.Files.Call = true
		fds = append(fds, q.lease.Call.Int())
	}
	return m, fds
}

// Rings says where those of a running queue are.
func (q *Queue) Rings() *handover.Queue { return &q.lease.queue }

// Held are the heads that a worker which is gone has left in flight.
func (q *Queue) Held() []uint16 { return q.held }

// Comes says where the queue stood in another process, with what heads in flight, before it starts
// here.
func (q *Queue) Comes(base uint16, held []uint16) {
	q.Forget()
	q.DropLeft()
	q.base, q.held = base, held
}

// Assign is called before a worker gets the queue, with what it will note of it. What a worker
// before it has left in flight is noted at once: this one may end before it has taken that over.
func (q *Queue) Assign(state *handover.State) {
	for _, head := range q.held {
		state.Take(head, q.base)
	}
	state.SetBase(q.base)
	q.remains.Keep(remains.State(q.index), state.FD())
}

// TakenOver is told that a worker of the previous process has the queue, and gets its notes.
func (q *Queue) TakenOver(state *handover.State) { q.base, q.known = state.Base(), true }

// LeftBy takes over the notes of a worker of the previous process, which is to end and takes
// nothing more.
func (q *Queue) LeftBy(state *handover.State) { q.noted = state }

// Leave takes the queue from a worker that is gone, as far as its notes say where that was.
func (q *Queue) Leave(state *handover.State, mem *guestmem.Memory) {
	q.base, q.unsure = state.Base(), true
	q.held, q.given = state.InFlight(virtqueue.MaxSize), nil
	if head, used, ok := state.Given(); ok {
		q.given = &given{head, used}
	}
	if q.lease != nil && mem != nil {
		q.settle(mem)
	}
}

// settle finds out which of the heads that a worker held are left. If the used index has moved on,
// the driver already has the one that was being returned, and may even use it again.
func (q *Queue) settle(mem *guestmem.Memory) {
	size, g := q.lease.queue.Size, q.given
	q.given = nil
	q.held = slices.DeleteFunc(q.held, func(h uint16) bool { return h >= size })
	var index [2]byte
	if g == nil || mem.Read(index[:], q.lease.queue.Used+usedIndex) != nil ||
		binary.LittleEndian.Uint16(index[:]) == g.used {
		return
	}
	q.held = slices.DeleteFunc(q.held, func(h uint16) bool { return h == g.head })
}

// Rewind takes the queue from a worker that is gone, and has returned nothing since that index:
// another one will begin there.
func (q *Queue) Rewind(base uint16) { q.base, q.held, q.given, q.known = base, nil, nil, true }

// Forget drops what a worker held: the queue is another driver's.
func (q *Queue) Forget() { q.held, q.given, q.unsure, q.known = nil, nil, false, false }

// GiveBack returns every chain to the driver: those that a worker held, and those that none took.
func (q *Queue) GiveBack(mem *guestmem.Memory) {
	c := q.lease.queue
	q.settle(mem)
	q.recordReturn()
	ring, err := virtqueue.New(mem, virtqueue.Config{
		Record: q.record.Queue(0),
		Size:   c.Size, Desc: c.Desc, Avail: c.Avail, Used: c.Used, Base: q.base,
		EventIdx: c.EventIdx, InFlight: q.held, MaxChain: wire.ChainMax,
	})
	if err != nil {
		q.log.WithError(err).Warn("take back a queue")
		return
	}
	defer ring.Close()
	q.remains.Drop(remains.State(q.index))
	// In the driver's order, so that the used index says which have gone back.
	for _, head := range popAll(ring, int(c.Size), q.held) {
		_ = ring.Push(head, 0)
	}
	if q.base, q.held = ring.Base(), nil; q.record != nil {
		q.remains.Drop(remains.Record(q.index))
		_ = q.record.Close()
		q.record = nil
	}
	if (ring.NeedsNotify() || q.unsure) && q.lease.Call != nil {
		_ = q.lease.Call.Signal()
	}
	q.unsure = false
}

// Offered says whether the queue runs, and has chains that nobody has taken.
func (q *Queue) Offered(mem *guestmem.Memory) bool {
	var index [2]byte
	return q.lease != nil && mem.Read(index[:], q.lease.queue.Avail+availIndex) == nil &&
		binary.LittleEndian.Uint16(index[:]) != q.base
}

// popAll takes the chains that are available, at most n, and appends their heads.
func popAll(q *virtqueue.Queue, n int, heads []uint16) []uint16 {
	for range n {
		var bad *virtqueue.ChainError
		switch chain, ok, err := q.Pop(); {
		case ok:
			heads = append(heads, chain.Head())
		case errors.As(err, &bad):
			heads = append(heads, bad.Head)
		default:
			return heads
		}
	}
	return heads
}

// usedIndex is where the index is in a used ring, and availIndex in an avail ring.
const (
	usedIndex  = 2
	availIndex = 2
)

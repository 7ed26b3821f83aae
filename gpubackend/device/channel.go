// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// channel is a place for one guest process: a queue, and while it is open a worker. All is guarded
// by Device.mu.
type channel struct {
	index  int
	lease  *lease           // nil while the queue is stopped
	start  chan struct{}    // closed when the queue starts; made anew when it stops
	watch  *stranger        // while the queue runs and no driver of ours has greeted
	base   uint16           // next avail index, while no worker has the queue
	held   []uint16         // heads that a worker which is gone has left in flight
	record *inflight.Region // of heads that are to go back; nil: there is none
	owed   bool             // its chains go back when no mover lingers
	worker *workerProcess
	unsure bool     // a worker that is gone may have returned heads without an interrupt
	cold   *program // a worker is to be started for it when the queue goes on at base

	filed *savedProgram // is being saved to a file
	saved *savedProgram // is in a file, and has no worker: one is to go on at base

	// closed when the worker, which was told to pause, has or is gone; nil: it wasn't told
	paused   chan struct{}
	stopping bool // the queue is about to stop
}

func newChannel(index int) *channel { return &channel{index: index, start: make(chan struct{})} }

// lend makes the queue one that runs.
func (c *channel) lend(l *lease) {
	c.lease = l
	close(c.start)
}

// end is the reverse of lend.
func (c *channel) end() {
	c.watch.end()
	c.lease.close()
	c.lease, c.watch, c.start = nil, nil, make(chan struct{})
}

// lease is a queue that can be handed to a worker.
type lease struct {
	queue      handover.Queue
	kick, call *vhostuser.FD
}

func newLease(q vhostuser.QueueConfig) (*lease, error) {
	if q.Kick == nil {
		return nil, errors.New("queue without a kick descriptor")
	}
	l := &lease{queue: handover.Queue{
		Size: q.Size, Desc: q.Desc, Avail: q.Avail, Used: q.Used, EventIdx: q.EventIdx(),
		Indirect: q.Indirect(),
	}}
	var err error
	if l.kick, err = q.Kick.Dup(); err != nil {
		return nil, err
	}
	if err := l.setCall(q.Call); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lease) setCall(call *vhostuser.FD) (err error) {
	if l.call != nil {
		_ = l.call.Close()
		l.call = nil
	}
	if call != nil {
		l.call, err = call.Dup()
	}
	return err
}

func (l *lease) close() {
	_ = l.kick.Close()
	if l.call != nil {
		_ = l.call.Close()
	}
}

// message is the queue's part of a message to a worker, and the files that go with it.
func (l *lease) message(
	kind handover.Kind, base uint16, inFlight []uint16,
) (*handover.Message, []int) {
	q := l.queue
	q.Base, q.InFlight = base, inFlight
	m := &handover.Message{Kind: kind, Queue: &q, Files: handover.Files{Kick: true}}
	fds := []int{l.kick.Int()}
	if l.call != nil {
		m.Files.Call = true
		fds = append(fds, l.call.Int())
	}
	return m, fds
}

// reclaim returns every chain of a channel without a worker to the driver: those that its worker
// held, and those that it never took. Not while the GPU may write to their pages: then they are
// owed.
func (d *Device) reclaim(c *channel) (owed bool) {
	if c.lease == nil || d.mapped == nil || c.worker != nil || c.saved != nil {
		return false
	}
	if c.owed = len(d.movers.Lingering()) > 0; c.owed {
		return true
	}
	m, _ := c.lease.message("", c.base, c.held)
	d.recordReturn(c)
	q, err := virtqueue.New(d.mapped, virtqueue.Config{
		Record: c.record.Queue(0),
		Size:   m.Queue.Size, Desc: m.Queue.Desc, Avail: m.Queue.Avail, Used: m.Queue.Used,
		Base:     c.base,
		EventIdx: m.Queue.EventIdx, Indirect: m.Queue.Indirect, InFlight: c.held,
		MaxChain: wire.ChainMax,
	})
	if err != nil {
		d.log.WithError(err).Warn("take back a queue")
		return false
	}
	defer q.Close()
	d.config.Remains.Drop(remains.State(c.index))
	// In the driver's order, so that the used index alone says which have gone back.
	for _, head := range popAll(q, int(m.Queue.Size), c.held) {
		_ = q.Push(head, 0)
	}
	if c.base, c.held = q.Base(), nil; c.record != nil {
		d.config.Remains.Drop(remains.Record(c.index))
		_ = c.record.Close()
		c.record = nil
	}
	if (q.NeedsNotify() || c.unsure) && c.lease.call != nil {
		_ = c.lease.call.Signal()
	}
	c.unsure = false
	return false
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

// heldBy returns the heads that a worker which is gone has left in flight. One that it was
// returning is the driver's already if the used index has moved on, and may even be in use again.
func (d *Device) heldBy(w *workerProcess, c *channel) []uint16 { return d.heldIn(w.state, c) }

// heldIn is heldBy of what a worker has noted.
func (d *Device) heldIn(state *handover.State, c *channel) []uint16 {
	size := uint16(maxQueue)
	if c.lease != nil {
		size = c.lease.queue.Size
	}
	heads := state.InFlight(size)
	head, used, ok := state.Given()
	if !ok || c.lease == nil || d.mapped == nil {
		return heads
	}
	var index [2]byte
	if err := d.mapped.Read(index[:], c.lease.queue.Used+usedIndex); err == nil &&
		binary.LittleEndian.Uint16(index[:]) != used {
		heads = slices.DeleteFunc(heads, func(h uint16) bool { return h == head })
	}
	return heads
}

// usedIndex is where the index is in a used ring.
const usedIndex = 2

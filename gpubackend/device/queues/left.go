// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"encoding/binary"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// TakeOver is called when a queue has started that no worker has: its driver begins anew, or it
// goes on as the previous device process has left it.
func (q *Queue) TakeOver(c vhostuser.QueueConfig, mem *guestmem.Memory) {
	switch {
	case Begins(c, mem):
		q.Forget()
		q.DropLeft()
	case q.remains != nil:
		q.takeLeft(c, mem)
	}
}

// takeLeft takes what the previous process noted of a queue, when it starts for the first time.
func (q *Queue) takeLeft(c vhostuser.QueueConfig, mem *guestmem.Memory) {
	noted := q.takeState()
	fd, recorded := q.remains.Take(remains.Record(q.index))
	switch {
	case noted != nil: // then nothing that is recorded has gone back yet
		defer noted.Close()
		if recorded {
			unix.Close(fd)
		}
		q.Leave(noted, mem)
	case recorded:
		defer unix.Close(fd)
		record, err := openRecord(fd, c.Size)
		if err != nil {
			q.log.WithError(err).Warn("take over a queue")
		}
		q.record, q.unsure = record, true
	case c.Resumed && !q.known:
		q.base, q.unsure = usedAt(mem, c.Used), true
	}
}

// takeState opens what a worker of the previous process noted; nil: nothing.
func (q *Queue) takeState() *handover.State {
	if noted := q.noted; noted != nil {
		q.noted = nil
		return noted
	}
	fd, ok := q.remains.Take(remains.State(q.index))
	if !ok {
		return nil
	}
	state, err := handover.AdoptState(fd)
	if err != nil {
		q.log.WithError(err).Warn("take over a queue")
		return nil
	}
	return state
}

// DropLeft drops what was kept of a queue that a driver begins anew.
func (q *Queue) DropLeft() {
	for _, p := range []remains.Purpose{remains.State(q.index), remains.Record(q.index)} {
		if fd, left := q.remains.Take(p); left {
			unix.Close(fd)
		}
		q.remains.Drop(p)
	}
	if q.noted != nil {
		q.noted.Close()
		q.noted = nil
	}
	_ = q.record.Close()
	q.record = nil
}

// recordReturn records what is about to go back to the driver, in place of the worker's notes.
// Without a keeper, or with nothing to return, there is no record.
func (q *Queue) recordReturn() {
	if q.remains == nil || q.record != nil || len(q.held) == 0 {
		return
	}
	q.record = newRecord(q.lease.queue.Size, q.remains, remains.Record(q.index), q.log)
}

// newRecord makes a record and keeps it for the next process; nil: it can't.
func newRecord(
	size uint16, r *remains.Remains, p remains.Purpose, log *logrus.Entry,
) *inflight.Region {
	fd, err := inflight.Create(shapeOf(size))
	if err != nil {
		log.WithError(err).Warn("record what is in flight")
		return nil
	}
	defer unix.Close(fd)
	record, err := openRecord(fd, size)
	if err != nil {
		log.WithError(err).Warn("record what is in flight")
		return nil
	}
	r.Keep(p, fd)
	return record
}

// openRecord opens the record of a queue of that size. The descriptor stays the caller's.
func openRecord(fd int, size uint16) (*inflight.Region, error) {
	shape := shapeOf(size)
	return inflight.Open(fd, 0, shape.Bytes(), shape)
}

func shapeOf(size uint16) inflight.Shape { return inflight.Shape{Queues: 1, Size: size} }

// usedAt reads the index of a used ring: how many chains have gone back to the driver.
func usedAt(mem *guestmem.Memory, ring uint64) uint16 {
	var index [2]byte
	_ = mem.Read(index[:], ring+usedIndex)
	return binary.LittleEndian.Uint16(index[:])
}

// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// A device process that dies leaves its queues to the next one (package remains):
//   - of a queue that a worker had, what the worker noted: it is kept from before the worker has
//     the queue until it is known what of it goes back to the driver;
//   - what goes back is first in a record, which is kept until all has;
//   - of a queue with neither, all that was taken was returned: its used index says where it
//     stands;
//   - the control queue has a record while it runs. Requests without an answer are obeyed again.
//
// The workers and the mover of the one before are ended. No chain goes back before they are gone.

// takeLeft takes what the process before this one noted of a channel's queue, when that starts for
// the first time.
func (d *Device) takeLeft(c *channel, q vhostuser.QueueConfig) {
	noted := d.takeState(c)
	fd, recorded := d.config.Remains.Take(remains.Record(c.index))
	switch {
	case noted != nil: // then nothing of what is recorded went back yet
		defer noted.Close()
		if recorded {
			unix.Close(fd)
		}
		c.base, c.held, c.unsure = noted.Base(), d.heldIn(noted, c), true
	case recorded:
		defer unix.Close(fd)
		record, err := openRecord(fd, q.Size)
		if err != nil {
			d.log.WithError(err).Warn("take over a queue")
		}
		c.record, c.unsure = record, true
	case q.Resumed:
		c.base, c.unsure = d.usedAt(q.Used), true
	}
}

// takeState opens what a worker of the process before this one noted; nil: nothing.
func (d *Device) takeState(c *channel) *handover.State {
	fd, ok := d.config.Remains.Take(remains.State(c.index))
	if !ok {
		return nil
	}
	state, err := handover.AdoptState(fd)
	if err != nil {
		d.log.WithError(err).Warn("take over a queue")
		return nil
	}
	return state
}

// recordReturn makes the record of what is about to go back to the driver, in place of what the
// worker noted. Without a keeper, or with nothing to record, there is none.
func (d *Device) recordReturn(c *channel) {
	if d.config.Remains == nil || c.record != nil || len(c.held) == 0 {
		return
	}
	c.record = d.newRecord(c.lease.queue.Size, remains.Record(c.index))
}

// newRecord makes a record and has it kept; nil: it can't.
func (d *Device) newRecord(size uint16, p remains.Place) *inflight.Region {
	fd, err := inflight.Create(shapeOf(size))
	if err != nil {
		d.log.WithError(err).Warn("record what is in flight")
		return nil
	}
	defer unix.Close(fd)
	record, err := openRecord(fd, size)
	if err != nil {
		d.log.WithError(err).Warn("record what is in flight")
		return nil
	}
	d.config.Remains.Keep(p, fd)
	return record
}

// openRecord opens the record of a queue of that size. The descriptor stays the caller's.
func openRecord(fd int, size uint16) (*inflight.Region, error) {
	shape := shapeOf(size)
	return inflight.Open(fd, 0, shape.Bytes(), shape)
}

func shapeOf(size uint16) inflight.Shape { return inflight.Shape{Queues: 1, Size: size} }

// controlRecord is the record of the control queue: that of the process before this one, if the
// queue ran when that died, or else a new one; nil without a keeper.
func (d *Device) controlRecord(q vhostuser.QueueConfig) (record *inflight.Region, again bool) {
	if d.config.Remains == nil {
		return nil, false
	}
	if fd, left := d.config.Remains.Take(remains.Control); left {
		defer unix.Close(fd)
		record, err := openRecord(fd, q.Size)
		if err == nil {
			_, _, err = record.Queue(0).Recover(d.usedAt(q.Used))
		}
		if err == nil {
			return record, true
		}
		_ = record.Close()
		d.log.WithError(err).Warn("take over the control queue")
	}
	return d.newRecord(q.Size, remains.Control), false
}

// usedAt reads the index of a used ring: how many chains have gone back to the driver.
func (d *Device) usedAt(ring uint64) uint16 {
	var index [2]byte
	_ = d.mapped.Read(index[:], ring+usedIndex)
	return binary.LittleEndian.Uint16(index[:])
}

// controlStopped ends the keeping of the control queue's record, unless requests are still to be
// answered.
func (d *Device) controlStopped(late *lateAnswers) {
	if late.open == 0 && len(late.heads) == 0 {
		d.config.Remains.Drop(remains.Control)
	}
}

// forgetLeft ends the keeping of a queue that a driver begins anew.
func (d *Device) forgetLeft(c *channel) {
	for _, p := range []remains.Place{remains.State(c.index), remains.Record(c.index)} {
		if fd, left := d.config.Remains.Take(p); left {
			unix.Close(fd)
		}
		d.config.Remains.Drop(p)
	}
	_ = c.record.Close()
	c.record = nil
}

// errLeft is that a process of the device process before this one is still there.
var errLeft = errors.New("a process of the device process before this one does not end")

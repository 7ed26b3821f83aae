// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Push returns a chain to the driver, which may look at it at once. Chains can be returned in any
// order. written is the number of bytes, counted from the start of the writable part, that the
// device has written; the driver trusts it, so it must not count bytes that were left alone.
func (q *Queue) Push(head uint16, written uint32) error {
	if q.broken != nil {
		return q.broken
	}
	if head >= q.cfg.Size || q.inFlight[head] == nil {
		return fmt.Errorf("push %d: %w", head, ErrNotInFlight)
	}
	c := q.inFlight[head]
	if written > c.writeLen && !c.adopted {
		return fmt.Errorf("push %d: %w: %d of %d", head, ErrWritten, written, c.writeLen)
	}
	if err := q.publish(head, written); err != nil {
		return q.fail("push", err)
	}
	q.drop(c)
	return nil
}

// publish writes a used element, and then the index that shows it to the driver.
func (q *Queue) publish(head uint16, written uint32) (err error) {
	defer q.mem.Recover(debug.SetPanicOnFault(true), &err)
	if q.cfg.Record != nil {
		q.cfg.Record.Returning(head)
	}
	at := ringHeader + usedElemSize*int(q.nextUsed&q.mask)
	store64(q.used, at, uint64(head)|uint64(written)<<32)
	next := q.nextUsed + 1
	store32(q.used, 0, uint32(next)<<16|uint32(q.usedFlags))
	q.nextUsed = next
	if q.cfg.Record != nil {
		q.cfg.Record.Returned(next)
	}
	if q.mem.Dirty().Log() != nil {
		q.dirty(at, usedElemSize)
		q.dirty(0, ringHeader)
	}
	return nil
}

// NeedsNotify reports whether the driver wants an interrupt for what was pushed since NeedsNotify
// was last called. If the queue is broken, the driver can't be asked: then it is false.
func (q *Queue) NeedsNotify() bool {
	if q.broken != nil || q.nextUsed == q.signalled {
		return false
	}
	need, err := q.needsNotify()
	if err != nil {
		q.fail("read used event", err)
		return false
	}
	q.signalled = q.nextUsed
	return need
}

func (q *Queue) needsNotify() (need bool, err error) {
	defer q.mem.Recover(debug.SetPanicOnFault(true), &err)
	// The used index must be visible before the driver's wish is read: the driver sets its wish
	// first and then looks at the index. Otherwise both sides could miss each other.
	q.barrier()
	if !q.cfg.EventIdx {
		flags, _ := q.loadAvail()
		return flags&availNoInterrupt == 0, nil
	}
	event := load16(q.avail, ringHeader+2*int(q.cfg.Size))
	return needEvent(event, q.nextUsed, q.signalled), nil
}

// needEvent reports whether an index that moved from old to new passed event (virtio 1.3, 2.7.10).
func needEvent(event, new, old uint16) bool {
	return new-event-1 < new-old
}

// parkDistance is how far ahead of the queue DisableKick puts avail_event: so far that the driver,
// which is never more than a queue ahead, doesn't reach it. It is moved on every parkRefresh
// chains.
const (
	parkDistance = 1 << 15
	parkRefresh  = 1 << 13
)

// DisableKick asks the driver not to kick, as the queue is being polled. A kick may still come.
func (q *Queue) DisableKick() error {
	if q.broken != nil {
		return q.broken
	}
	q.kicksOff = true
	return q.setKick()
}

// EnableKick asks the driver to kick for the next chain that it makes available, and reports
// whether one is available already: then no kick may come for it and the caller must poll again.
func (q *Queue) EnableKick() (more bool, err error) {
	if q.broken != nil {
		return false, q.broken
	}
	q.kicksOff = false
	if err := q.setKick(); err != nil {
		return false, err
	}
	more, err = q.lookGuarded()
	if errors.Is(err, guestmem.ErrFault) {
		err = q.fail("read avail index", err)
	}
	return more, err
}

// lookGuarded is look after a barrier: a driver that missed the wish for a kick has published its
// index before it is read here.
func (q *Queue) lookGuarded() (more bool, err error) {
	defer q.mem.Recover(debug.SetPanicOnFault(true), &err)
	q.barrier()
	return q.look()
}

// setKick writes the device's wish for kicks.
func (q *Queue) setKick() error {
	err := q.mem.Guard(func() error {
		if q.cfg.EventIdx {
			q.writeEvent()
			return nil
		}
		q.usedFlags = 0
		if q.kicksOff {
			q.usedFlags = usedNoNotify
		}
		store32(q.used, 0, uint32(q.nextUsed)<<16|uint32(q.usedFlags))
		q.dirty(0, ringHeader)
		return nil
	})
	if err != nil {
		return q.fail("set kick", err)
	}
	return nil
}

// writeEvent sets avail_event: the avail index whose passing the driver kicks for.
func (q *Queue) writeEvent() {
	event := q.nextAvail
	if q.kicksOff {
		event += parkDistance
		q.eventAt = q.nextAvail
	}
	at := ringHeader + usedElemSize*int(q.cfg.Size)
	store16(q.used, at, event)
	q.dirty(at, eventSize)
}

// park moves avail_event on before the driver can reach it.
func (q *Queue) park() {
	if q.kicksOff && q.cfg.EventIdx && q.nextAvail-q.eventAt >= parkRefresh {
		q.writeEvent()
	}
}

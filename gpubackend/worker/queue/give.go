// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Find returns a map that a command names, taking new chains if it has not arrived yet.
func (q *Queue) Find(id uint32) *maps.Map {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.maps[id]; m != nil {
		return m
	}
	if _, err := q.takeLocked(); err != nil {
		q.complain(err, "queue broke")
	}
	return q.maps[id]
}

// giveLocked returns a chain to the driver. Wherever in here the worker ends, the device process
// knows what to do.
func (q *Queue) giveLocked(head uint16, written uint32) {
	q.config.State.Giving(head, q.ring.NextUsed())
	if err := q.ring.Push(head, written); err != nil {
		q.complain(err, "return a chain")
	}
	q.config.State.Give(head)
	if q.ring.NeedsNotify() && q.call >= 0 {
		eventfd.Notify(q.call)
		q.config.State.Count(handover.Interrupts, 1)
	}
}

// Return gives a map back: its chain, or its id if the chain went back long ago.
func (q *Queue) Return(m *maps.Map) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.maps[m.ID] != m {
		return
	}
	delete(q.maps, m.ID)
	q.config.Dirty.LetGo(m.Dirty)
	q.lists.put(m.Runs)
	m.Runs = nil
	if m.Kept {
		q.kept.letGo(m)
		return
	}
	q.giveLocked(m.Head, 0)
}

// Read copies from the program's pages, and Write to them. These don't stay mapped.
func (q *Queue) Read(b []byte, parts []guestmem.Extent) error { return q.mem.ReadOnce(b, parts...) }

// Write copies to the program's pages.
func (q *Queue) Write(b []byte, parts []guestmem.Extent) error {
	return q.mem.WriteOnce(b, parts...)
}

// Signal wakes the guest's sleeping threads and names the maps that go back, if that is due and the
// driver has left a chain for it.
func (q *Queue) Signal() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.due || len(q.kept.gone) > 0 {
		q.signalLocked()
	}
}

// WakeSleepers wakes the guest's sleeping threads, after an answer was written. Any goroutine may
// call it.
func (q *Queue) WakeSleepers() {
	if !q.arena.Sleepers() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = true
	if len(q.events) == 0 {
		if _, err := q.takeLocked(); err != nil {
			q.complain(err, "queue broke")
		}
	}
	q.signalLocked()
}

func (q *Queue) signalLocked() {
	if len(q.events) == 0 {
		return
	}
	last := len(q.events) - 1
	e := q.events[last]
	q.events = q.events[:last]
	var raw [wire.EventRecordSize]byte
	record, maps := q.kept.record(&raw, q.due)
	q.due = false
	if err := q.mem.Write(record, e.record); err != nil {
		record = nil
	} else {
		q.kept.told(maps)
	}
	q.giveLocked(e.head, uint32(len(record)))
}

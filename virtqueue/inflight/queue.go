// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
)

const version = 1

// Queue is the record of one queue.
type Queue struct {
	mem  []byte
	size uint16 // descriptors
	lost bool

	// What was written last: none of it is read back.
	last    uint16 // last batch head
	used    uint16
	counter uint64 // of the next head
}

// Size is how many descriptors there is room for.
func (q *Queue) Size() uint16 { return q.size }

// Lost reports whether something could not be noted. It stays so.
func (q *Queue) Lost() bool { return q.lost }

// Recover reads what an earlier device left: the heads that are in flight, in the order in which
// they were taken. It must be called before anything is noted. used is the index of the used ring.
// fresh says that there was no earlier device.
func (q *Queue) Recover(used uint16) (heads []uint16, fresh bool, err error) {
	fault := q.guard(func() { heads, fresh, err = q.recover(used) })
	if fault {
		return nil, false, fmt.Errorf("%w: the front end has cut its file short", ErrRegion)
	}
	return heads, fresh, err
}

func (q *Queue) recover(used uint16) (heads []uint16, fresh bool, err error) {
	h, features := decodeHeader(load(q.mem, 8)), load(q.mem, 0)
	switch {
	case h.version == 0:
		for i := range q.size {
			q.mark(i, 0, 0)
		}
		q.used = used
		store(q.mem, 0, 0)
		q.header()
		return nil, true, nil
	case h.version != version || features != 0:
		return nil, false, fmt.Errorf("%w: version %d, features %#x", ErrRegion, h.version,
			features)
	case h.descriptors != q.size:
		return nil, false, fmt.Errorf("%w of %d descriptors, want %d", ErrRegion, h.descriptors,
			q.size)
	}
	if err := q.finish(h, used-h.used); err != nil {
		return nil, false, err
	}
	q.last, q.used = h.last, used
	q.header()
	return q.inFlight(), false, nil
}

// finish marks the first n heads of the last batch as returned: the driver sees them as returned
// already.
func (q *Queue) finish(h header, n uint16) error {
	if n > q.size {
		return fmt.Errorf("%w: %d were returned at once", ErrRegion, n)
	}
	for i := h.last; n > 0; n-- {
		if i >= q.size {
			return fmt.Errorf("%w: head %d of %d in a batch", ErrRegion, i, q.size)
		}
		_, next := decodeState(load(q.mem, at(i)))
		q.mark(i, 0, next)
		i = next
	}
	return nil
}

// inFlight returns the heads in flight, in the order in which they were taken.
func (q *Queue) inFlight() []uint16 {
	type taken struct {
		counter uint64
		head    uint16
	}
	var all []taken
	for i := range q.size {
		if is, _ := decodeState(load(q.mem, at(i))); is {
			all = append(all, taken{load(q.mem, at(i)+8), i})
		}
	}
	slices.SortStableFunc(all, func(a, b taken) int { return cmp.Compare(a.counter, b.counter) })
	var heads []uint16
	for _, t := range all {
		heads = append(heads, t.head)
		q.counter = t.counter + 1
	}
	return heads
}

// Take notes that a head was taken from the avail ring.
func (q *Queue) Take(head uint16) {
	q.guard(func() {
		store(q.mem, at(head)+8, q.counter)
		q.counter++
		q.mark(head, 1, 0)
	})
}

// Returning notes that a head is about to be returned. The used ring's index must not have moved.
func (q *Queue) Returning(head uint16) {
	q.guard(func() {
		q.mark(head, 1, q.last)
		q.last = head
		q.header()
	})
}

// Returned notes that the used ring's index has moved past the head of the last Returning.
func (q *Queue) Returned(used uint16) {
	q.guard(func() {
		q.mark(q.last, 0, 0)
		q.used = used
		q.header()
	})
}

// guard runs fn unless the record is lost, and makes it lost if its memory vanishes.
func (q *Queue) guard(fn func()) (fault bool) {
	if q.lost {
		return true
	}
	defer q.caught(debug.SetPanicOnFault(true), &fault)
	fn()
	return false
}

// caught turns a fault on the record into Lost. It must be deferred directly.
func (q *Queue) caught(old bool, fault *bool) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	at, ok := r.(interface{ Addr() uintptr })
	if base := addr(q.mem); !ok || at.Addr() < base || at.Addr()-base >= uintptr(len(q.mem)) {
		panic(r)
	}
	q.lost, *fault = true, true
}

// at is where the state of a descriptor is.
func at(i uint16) int { return queueHeader + descBytes*int(i) }

// mark writes the state of a descriptor, in one store.
func (q *Queue) mark(i uint16, inFlight uint8, next uint16) {
	store(q.mem, at(i), uint64(inFlight)|uint64(next)<<48)
}

func decodeState(v uint64) (inFlight bool, next uint16) { return uint8(v) != 0, uint16(v >> 48) }

// header is the second word of a queue.
type header struct{ version, descriptors, last, used uint16 }

func decodeHeader(v uint64) header {
	return header{uint16(v), uint16(v >> 16), uint16(v >> 32), uint16(v >> 48)}
}

// header writes it, in one store.
func (q *Queue) header() {
	store(q.mem, 8, version|uint64(q.size)<<16|uint64(q.last)<<32|uint64(q.used)<<48)
}

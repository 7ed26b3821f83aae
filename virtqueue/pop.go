// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"errors"
	"math"
	"runtime/debug"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Pop takes the next chain that the driver made available. ok is false if there is none, or with
// an error: see the package documentation for the two kinds.
func (q *Queue) Pop() (c *Chain, ok bool, err error) {
	if q.broken != nil {
		return nil, false, q.broken
	}
	c, err = q.pop()
	if err == nil {
		return c, c != nil, nil
	}
	if errors.Is(err, guestmem.ErrFault) {
		err = q.fail("pop", guestmem.ErrFault)
	}
	return nil, false, err
}

// pop is Pop under the guard.
func (q *Queue) pop() (c *Chain, err error) {
	defer q.mem.Recover(debug.SetPanicOnFault(true), &err)
	if more, err := q.look(); !more || err != nil {
		return nil, err
	}
	head, err := q.next()
	if err != nil {
		return nil, err
	}
	c = q.take(head)
	if err := q.walk(c); err != nil {
		c.buffers, c.readers, c.readLen, c.writeLen = c.buffers[:0], 0, 0, 0
		return nil, err
	}
	return c, nil
}

// next takes the head of the next chain: of those to be given again, or from the avail ring.
func (q *Queue) next() (uint16, error) {
	if len(q.again) > 0 {
		head := q.again[0]
		q.again = q.again[1:]
		return head, nil
	}
	head := load16(q.avail, ringHeader+2*int(q.nextAvail&q.mask))
	if head >= q.cfg.Size {
		return 0, q.fail("pop", ErrHead)
	}
	if q.inFlight[head] != nil {
		return 0, q.fail("pop", ErrInFlight)
	}
	q.nextAvail++
	q.park()
	if q.cfg.Record != nil {
		q.cfg.Record.Take(head)
	}
	return head, nil
}

// look reports whether chains are available, and reads the driver's index only if all of those
// seen before have been taken.
func (q *Queue) look() (bool, error) {
	if q.nextAvail != q.availSeen || len(q.again) > 0 {
		return true, nil
	}
	_, idx := q.loadAvail()
	if idx-q.nextAvail > q.cfg.Size {
		return false, q.fail("read avail index", ErrAvailIndex)
	}
	q.availSeen = idx
	return idx != q.nextAvail, nil
}

// walk copies and checks the descriptors of a chain. The number of steps is bounded by MaxChain,
// so a loop ends like any chain that is too long.
func (q *Queue) walk(c *Chain) error {
	table, entries, i := q.desc, int(q.cfg.Size), c.head
	indirect := false
	for steps := 0; ; {
		d := readDescriptor(table, i)
		if d.flags&descIndirect != 0 {
			t, err := q.openIndirect(d, indirect)
			if err != nil {
				return &ChainError{c.head, i, err}
			}
			table, entries, i, indirect = t, len(t)/descSize, 0, true
			continue
		}
		if steps++; steps > q.cfg.MaxChain {
			return &ChainError{c.head, i, ErrTooLong}
		}
		if err := q.addBuffer(c, d); err != nil {
			return &ChainError{c.head, i, err}
		}
		if d.flags&descNext == 0 {
			return nil
		}
		if int(d.next) >= entries {
			return &ChainError{c.head, i, ErrNext}
		}
		i = d.next
	}
}

// openIndirect checks a descriptor that refers to an indirect table and returns the table. Its
// write flag is ignored, as the specification asks (virtio 1.3, 2.7.5.3.2).
func (q *Queue) openIndirect(d descriptor, nested bool) ([]byte, error) {
	switch {
	case nested:
		return nil, ErrNested
	case !q.cfg.Indirect:
		return nil, ErrNoIndirect
	case d.flags&descNext != 0:
		return nil, ErrIndirect
	case d.len == 0 || d.len%descSize != 0 || d.len/descSize > uint32(q.cfg.MaxChain):
		return nil, ErrIndirectLen
	}
	table, err := q.mem.Slice(d.addr, uint64(d.len))
	if !errors.Is(err, guestmem.ErrSplit) {
		return table, err
	}
	if q.table == nil {
		q.table = make([]byte, descSize*q.cfg.MaxChain)
	}
	table = q.table[:d.len]
	return table, q.mem.Read(table, d.addr)
}

// addBuffer checks a buffer and adds it to the chain. An empty one is left out: its address is
// never used.
func (q *Queue) addBuffer(c *Chain, d descriptor) error {
	write := d.flags&descWrite != 0
	if !write && c.writing {
		return ErrOrder
	}
	c.writing = write
	if d.len == 0 {
		return nil
	}
	if uint64(c.readLen)+uint64(c.writeLen)+uint64(d.len) > math.MaxUint32 {
		return ErrTooLarge
	}
	if err := q.mem.Check(d.addr, uint64(d.len)); err != nil {
		return err
	}
	c.buffers = append(c.buffers, Buffer{Addr: d.addr, Len: d.len})
	if write {
		c.writeLen += d.len
	} else {
		c.readLen += d.len
		c.readers++
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"fmt"
	"io"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Buffer is a buffer of a chain. It is known to lie wholly inside guest memory.
type Buffer struct {
	Addr uint64 // guest-physical
	Len  uint32 // never 0
}

// Chain is a request of the driver: bytes for the device to read, followed by room for the device
// to write. It belongs to its Queue, and is valid from Pop until Push of its head.
type Chain struct {
	mem      *guestmem.Memory
	head     uint16
	live     bool
	writing  bool // a device-writable descriptor has been seen
	adopted  bool // taken over from an earlier queue: the buffers aren't known
	readers  int  // how many of buffers are device-readable; the others are writable
	buffers  []Buffer
	readLen  uint32
	writeLen uint32
}

// Head returns the descriptor index that names the chain to Push.
func (c *Chain) Head() uint16 { return c.head }

// ReadLen returns how many bytes the device may read.
func (c *Chain) ReadLen() uint32 { return c.readLen }

// WriteLen returns how many bytes the device may write.
func (c *Chain) WriteLen() uint32 { return c.writeLen }

// Readable returns the device-readable buffers, in order. The slice is the chain's own.
func (c *Chain) Readable() []Buffer { return c.buffers[:c.readers] }

// Writable returns the device-writable buffers, in order. The slice is the chain's own.
func (c *Chain) Writable() []Buffer { return c.buffers[c.readers:] }

// ReadAt copies from the device-readable part, which it treats as one piece. It implements
// io.ReaderAt: a short read has an error, io.EOF at the end of the part.
func (c *Chain) ReadAt(p []byte, off int64) (int, error) {
	return c.each(p, off, c.Readable(), io.EOF, (*guestmem.Memory).Read)
}

// WriteAt copies to the device-writable part, which it treats as one piece. It implements
// io.WriterAt: a short write has an error, io.ErrShortWrite at the end of the part.
func (c *Chain) WriteAt(p []byte, off int64) (int, error) {
	return c.each(p, off, c.Writable(), io.ErrShortWrite, (*guestmem.Memory).Write)
}

// each applies move to the pieces of p that the buffers hold from off on, and returns end if they
// hold less than p.
func (c *Chain) each(p []byte, off int64, buffers []Buffer, end error,
	move func(*guestmem.Memory, []byte, uint64) error) (int, error) {
	if !c.live {
		return 0, ErrNotInFlight
	}
	if off < 0 {
		return 0, fmt.Errorf("chain %d: negative offset %d", c.head, off)
	}
	done := 0
	for _, s := range buffers {
		if done == len(p) {
			break
		}
		if off >= int64(s.Len) {
			off -= int64(s.Len)
			continue
		}
		n := min(len(p)-done, int(s.Len)-int(off))
		if err := move(c.mem, p[done:done+n], s.Addr+uint64(off)); err != nil {
			return done, fmt.Errorf("chain %d: %w", c.head, err)
		}
		done, off = done+n, 0
	}
	if done < len(p) {
		return done, end
	}
	return done, nil
}

// take makes a chain for a head, reusing an old one, and marks the head as in flight.
func (q *Queue) take(head uint16) *Chain {
	var c *Chain
	if n := len(q.free); n > 0 {
		c, q.free = q.free[n-1], q.free[:n-1]
	} else {
		c = &Chain{mem: q.mem}
	}
	*c = Chain{mem: c.mem, head: head, live: true, buffers: c.buffers[:0]}
	q.inFlight[head] = c
	q.flying++
	return c
}

// drop takes a head out of flight and keeps its chain for reuse.
func (q *Queue) drop(c *Chain) {
	c.live = false
	q.inFlight[c.head] = nil
	q.flying--
	q.free = append(q.free, c)
}

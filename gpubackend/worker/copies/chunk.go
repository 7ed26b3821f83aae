// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
)

// chunk is a part of a copy under way, with a part of the staging memory if it must pass through
// that. doc.go shows its states.
type chunk struct {
	index   int
	offset  uint64 // in the staging memory
	size    uint64 // as much as it can hold
	state   chunkState
	op      *operation
	counted bool // op waits for it
	from    cursor
	bytes   uint64
	fence   fences.Fence // that it waits for: settling or carrying
}

type chunkState uint8

const (
	chunkFree     chunkState = iota // no copy's
	chunkSettling                   // waits for earlier work of the stream
	chunkMoving                     // the mover copies between it and guest pages
	chunkCarrying                   // the driver copies between it and the rest of device memory
)

// How many chunks can be under way: those with a part of the staging memory, and direct ones, which
// are longer.
const (
	StagedChunks = 8
	directChunks = 16
	directBytes  = 64 << 20
)

// How many of them copies may have whose streams have earlier work.
const (
	earlyStaged = StagedChunks * 3 / 4
	earlyDirect = directChunks * 3 / 4
)

// chunks are all chunks.
type chunks struct {
	all    [StagedChunks + directChunks]chunk
	flying int        // that aren't free
	runs   []wire.Run // of the chunk that is being started
	places []moves.Place
	moved  []moves.Completion
}

// take returns a free chunk, or nil if none is free.
func (s *chunks) take(direct bool) *chunk {
	if direct {
		return s.free(StagedChunks, len(s.all))
	}
	return s.free(0, StagedChunks)
}

// free returns a free chunk with an index in a range.
func (s *chunks) free(from, to int) *chunk {
	for i := from; i < to; i++ {
		c := &s.all[i]
		if c.state != chunkFree {
			continue
		}
		if c.index = i; i >= StagedChunks {
			c.size = directBytes
		}
		return c
	}
	return nil
}

// early says whether a copy whose stream has earlier work may have one more chunk.
func (s *chunks) early(direct bool) bool {
	all, most, n := s.all[:StagedChunks], earlyStaged, 0
	if direct {
		all, most = s.all[StagedChunks:], earlyDirect
	}
	for i := range all {
		if c := &all[i]; c.state != chunkFree && !c.op.settled {
			n++
		}
	}
	return n < most
}

// start begins a chunk with the next part of a copy: free to settling, moving or carrying.
func (t *Copies) start(c *chunk, op *operation) {
	c.op, c.from = op, op.next
	c.bytes = op.take(c.size)
	c.counted = true
	op.chunks++
	t.chunks.flying++
	switch {
	case op.loan != nil:
		t.settle(c)
	case op.dir == toDevice:
		t.move(c)
	default:
		t.carry(c)
	}
}

// settle makes the mover copy a chunk directly between guest and device memory, once the earlier
// work of the stream is done.
func (t *Copies) settle(c *chunk) {
	op := c.op
	result := t.Contexts.Set(op.context, true)
	if result == gpubackend.Success && !op.settled {
		result = t.Driver.ContextQuery()
	}
	switch result {
	case gpubackend.Success:
		op.settled = true
		t.move(c)
		return
	case gpubackend.NotReady:
		if c.fence, result = t.Fences.Mark(op.stream); result == gpubackend.Success {
			c.state = chunkSettling
			return
		}
	}
	t.end(c, result)
}

// move makes the mover copy a chunk to or from the guest's pages.
func (t *Copies) move(c *chunk) {
	op := c.op
	if t.reach.broken != gpubackend.Success {
		t.end(c, t.reach.broken)
		return
	}
	c.state = chunkMoving
	runs, places := t.chunks.runs[:0], t.chunks.places[:0]
	c.eachRow(func(p cursor, _, n uint64) gpubackend.Result {
		at := op.host.offset + p.row.offset(op.host.pitch, op.host.slice) + p.x
		place := op.mapping.Place(at, n)
		runs, places = op.mapping.SlicePlace(runs, place), append(places, place)
		return gpubackend.Success
	})
	t.chunks.runs, t.chunks.places = runs, places
	m := moves.Move{
		ID: uint64(c.index), Staging: t.staging.number, Offset: c.offset,
		ToDevice: op.dir == toDevice, Runs: runs, Voucher: op.mapping.Voucher, Places: places,
	}
	if op.loan != nil {
		if op.loan.ended {
			t.end(c, gpubackend.InvalidValue)
			return
		}
		t.Count(handover.BytesDirect, c.bytes)
		m.Staging, m.Offset = op.loan.number, op.dev.address+op.dev.offset(c.from)-op.loan.base
	}
	if err := t.reach.mover.Start(&m); err != nil {
		t.Log.WithError(err).Warn("start a copy")
		t.end(c, gpubackend.Unknown)
	}
}

// carry queues the copy between a chunk's staging memory and the rows of device memory, and a fence
// after it.
func (t *Copies) carry(c *chunk) {
	op := c.op
	c.state = chunkCarrying
	if result := t.Contexts.Set(op.context, true); result != gpubackend.Success {
		t.end(c, result)
		return
	}
	result := c.eachRow(func(p cursor, at, n uint64) gpubackend.Result {
		dst, src := op.dev.address+op.dev.offset(p), t.staging.address+c.offset+at
		if op.dir == toHost {
			dst, src = src, dst
		}
		return t.Driver.Copy(dst, src, n, op.stream)
	})
	if result == gpubackend.Success {
		c.fence, result = t.Fences.Mark(op.stream)
	}
	if result != gpubackend.Success {
		t.end(c, result)
		return
	}
	if op.dir == toDevice {
		// The source has been read: the call need not wait for more.
		c.uncount()
	}
}

// Poll moves on chunks whose step has ended.
func (t *Copies) Poll() {
	if !t.Active() {
		return
	}
	s := &t.chunks
	if t.reach.broken == gpubackend.Success {
		var err error
		if s.moved, err = t.reach.mover.Poll(s.moved[:0]); err != nil {
			t.lose(err)
			s.moved = s.moved[:0]
		}
		for _, m := range s.moved {
			t.moved(m)
		}
	}
	for i := range s.all {
		switch c := &s.all[i]; c.state {
		case chunkCarrying:
			t.carried(c)
		case chunkSettling:
			t.settled(c)
		}
	}
}

// moved handles the end of the mover's step.
func (t *Copies) moved(m moves.Completion) {
	all := &t.chunks.all
	if m.ID >= uint64(len(all)) || all[m.ID].state != chunkMoving {
		return
	}
	c := &all[m.ID]
	switch {
	case m.Err != nil:
		t.Log.WithError(m.Err).Warn("copy guest memory")
		t.end(c, lostOr(gpubackend.InvalidValue, m.Err))
	case c.op.dir == toDevice && c.op.loan == nil:
		t.carry(c)
	default:
		t.end(c, gpubackend.Success)
	}
}

// settled moves a chunk on if its turn has come.
func (t *Copies) settled(c *chunk) {
	switch result := t.Fences.Passed(c.fence); result {
	case gpubackend.NotReady:
	case gpubackend.Success:
		c.op.settled = true
		t.move(c)
	default:
		t.end(c, result)
	}
}

// carried moves a chunk on if the driver's step has ended.
func (t *Copies) carried(c *chunk) {
	result := t.Fences.Passed(c.fence)
	if result == gpubackend.NotReady {
		return
	}
	c.op.settled = c.op.settled || result == gpubackend.Success
	if c.op.dir == toHost && result == gpubackend.Success {
		t.move(c)
		return
	}
	t.end(c, result)
}

// lose ends every chunk that the mover had, as it is gone. Those that wait for a stream end after
// that.
func (t *Copies) lose(err error) {
	t.Log.WithError(err).Error("the mover is gone")
	t.reach.broken = gpubackend.DeviceUnavailable
	for i := range t.chunks.all {
		if c := &t.chunks.all[i]; c.state == chunkMoving {
			t.end(c, gpubackend.DeviceUnavailable)
		}
	}
}

// end ends a chunk's part in its copy and frees it.
func (t *Copies) end(c *chunk, result gpubackend.Result) {
	if result != gpubackend.Success && c.op.result == gpubackend.Success {
		c.op.result = result
	}
	c.uncount()
	c.op, c.state = nil, chunkFree
	t.chunks.flying--
}

// uncount makes the chunk's call wait for it no longer.
func (c *chunk) uncount() {
	if c.counted {
		c.counted = false
		c.op.chunks--
	}
}

// eachRow calls f for the chunk's part of each of its rows, and the part's position in the chunk.
func (c *chunk) eachRow(f func(p cursor, at, n uint64) gpubackend.Result) gpubackend.Result {
	p, dev := c.from, &c.op.dev
	for at := uint64(0); at < c.bytes; {
		n := min(dev.width-p.x, c.bytes-at)
		if result := f(p, at, n); result != gpubackend.Success {
			return result
		}
		at += n
		p.x = 0
		if p.row.y++; p.row.y == dev.height {
			p.row.y = 0
			p.row.z++
		}
	}
	return gpubackend.Success
}

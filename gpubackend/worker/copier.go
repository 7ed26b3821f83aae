// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
)

// slot is a chunk on its way, with a part of the staging memory if it has to pass through that.
type slot struct {
	index   int
	offset  uint64
	size    uint64
	state   slotState
	op      *copyOp
	counted bool // op waits for it
	from    position
	bytes   uint64
	fence   fences.Fence
}

type slotState uint8

const (
	slotFree     slotState = iota
	slotSettling           // it waits for earlier work
	slotMoving             // the mover works on it
	slotCarrying           // the driver copies between it and the rest of device memory
)

// How many chunks can be on their way: those with a part of the staging memory, and those without, which are longer.
const (
	slotCount   = 8
	directCount = 16
	directBytes = 64 << 20
)

// copier owns the staging memory: slots that chunks of copies pass through.
type copier struct {
	address uint64 // of the staging memory on the device
	staging uint32 // its name at the mover
	opened  bool
	slots   [slotCount + directCount]slot
	flying  int // slots that aren't free
	moved   []Moved
	runs    []wire.Run        // of the chunk that is started
	broken  gpubackend.Result // the mover is gone: nothing is copied any more
}

// take returns a free slot, or nil if none is free.
func (c *copier) take(direct bool) *slot {
	if direct {
		return c.free(slotCount, len(c.slots))
	}
	return c.free(0, slotCount)
}

// free returns a free slot of those from one index to another.
func (c *copier) free(from, to int) *slot {
	for i := from; i < to; i++ {
		s := &c.slots[i]
		if s.state != slotFree {
			continue
		}
		if s.index = i; i >= slotCount {
			s.size = directBytes
		}
		return s
	}
	return nil
}

// open gets the staging memory unless it is there. What fails is tried again by the next copy that needs it: the guest
// may have freed memory until then.
func (c *copier) open(w *Worker) gpubackend.Result {
	if c.opened {
		return gpubackend.Success
	}
	size := w.policy.StagingBytes / slotCount
	address, staging, result := w.openStaging(size * slotCount)
	if result != gpubackend.Success {
		return result
	}
	c.address, c.staging, c.opened = address, staging, true
	for i := range slotCount {
		c.slots[i].offset, c.slots[i].size = uint64(i)*size, size
	}
	return gpubackend.Success
}

// active says whether any chunk is on its way.
func (c *copier) active() bool { return c.flying > 0 }

// poll moves chunks on whose step has ended.
func (c *copier) poll(w *Worker) {
	if !c.active() {
		return
	}
	var err error
	if c.moved, err = w.mover.Poll(c.moved[:0]); err != nil {
		c.fail(w, err)
		return
	}
	for _, m := range c.moved {
		c.arrived(w, m)
	}
	for i := range c.slots {
		switch s := &c.slots[i]; s.state {
		case slotCarrying:
			c.carried(w, s)
		case slotSettling:
			c.settled(w, s)
		}
	}
}

// arrived handles the end of the mover's step.
func (c *copier) arrived(w *Worker, m Moved) {
	if m.ID >= uint64(len(c.slots)) || c.slots[m.ID].state != slotMoving {
		return
	}
	s := &c.slots[m.ID]
	switch {
	case m.Err != nil:
		w.chains.complain(m.Err, "copy guest memory")
		w.endChunk(s, gpubackend.InvalidValue)
	case s.op.dir == toDevice && s.op.loan == nil:
		w.carry(s)
	default:
		w.endChunk(s, gpubackend.Success)
	}
}

// settled looks whether a chunk's turn has come.
func (c *copier) settled(w *Worker, s *slot) {
	switch result := w.fences.Passed(s.fence); result {
	case gpubackend.NotReady:
	case gpubackend.Success:
		w.move(s)
	default:
		w.endChunk(s, result)
	}
}

// carried looks whether the driver's step has ended.
func (c *copier) carried(w *Worker, s *slot) {
	result := w.fences.Passed(s.fence)
	if result == gpubackend.NotReady {
		return
	}
	if s.op.dir == toHost && result == gpubackend.Success {
		w.move(s)
		return
	}
	w.endChunk(s, result)
}

// fail ends every chunk that the mover has: it is gone.
func (c *copier) fail(w *Worker, err error) {
	w.log.WithError(err).Error("the mover is gone")
	c.broken = gpubackend.DeviceUnavailable
	for i := range c.slots {
		if c.slots[i].state == slotMoving {
			w.endChunk(&c.slots[i], gpubackend.DeviceUnavailable)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// copier owns the staging memory: slots that chunks of copies pass through.
type copier struct {
	address uint64 // of the staging memory on the device
	staging uint32 // its name at the mover
	slots   []slot
	moved   []Moved
	runs    []wire.Run        // of the chunk that is started
	broken  gpubackend.Result // why there is no staging memory
}

// slot is a part of the staging memory.
type slot struct {
	index   int
	offset  uint64
	size    uint64
	state   slotState
	op      *copyOp
	counted bool // op waits for it
	from    position
	bytes   uint64
	fence   fence
}

type slotState uint8

const (
	slotFree     slotState = iota
	slotMoving             // the mover works on it
	slotCarrying           // the driver copies between it and the rest of device memory
)

// slotCount is how many chunks can be on their way.
const slotCount = 8

// take returns a free slot, opening the staging memory on first use. nil: none is free, or broken says why.
func (c *copier) take(w *Worker) *slot {
	if c.slots == nil && c.broken == gpubackend.Success {
		c.open(w)
	}
	for i := range c.slots {
		if c.slots[i].state == slotFree {
			return &c.slots[i]
		}
	}
	return nil
}

func (c *copier) open(w *Worker) {
	size := w.policy.StagingBytes / slotCount
	address, staging, err := w.openStaging(size * slotCount)
	if err != nil {
		w.log.WithError(err).Error("open the staging memory")
		c.broken = gpubackend.OutOfMemory
		return
	}
	c.address, c.staging = address, staging
	for i := range slotCount {
		c.slots = append(c.slots, slot{index: i, offset: uint64(i) * size, size: size})
	}
}

// active says whether any chunk is on its way.
func (c *copier) active() bool {
	for i := range c.slots {
		if c.slots[i].state != slotFree {
			return true
		}
	}
	return false
}

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
		if s := &c.slots[i]; s.state == slotCarrying {
			c.carried(w, s)
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
		w.complain(m.Err, "copy guest memory")
		w.endChunk(s, gpubackend.InvalidValue)
	case s.op.dir == toDevice:
		w.carry(s)
	default:
		w.endChunk(s, gpubackend.Success)
	}
}

// carried looks whether the driver's step has ended.
func (c *copier) carried(w *Worker, s *slot) {
	result := w.passed(s.fence)
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

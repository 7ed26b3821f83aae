// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// channel is a place for one guest process: a queue, and while it is open a worker. All is guarded
// by Device.mu.
type channel struct {
	index  int
	queue  *queues.Queue // is stopped, or runs
	watch  *stranger     // while the queue runs and no driver of ours has greeted
	owed   bool          // its chains go back when no mover lingers
	worker *workers.Worker
	serves bool   // it does, and
	base   uint16 // where its queue began
	bare   bool   // it has neither queue nor memory yet

	unmet   bool // it was taken over, and hasn't said where it stands
	unasked bool // it was taken over, and the channel may be opened for it once more
	// a worker is to be started for it when the queue goes on where it began
	cold *workers.Program

	// closed when the worker, which was told to pause, has or is gone; nil: it wasn't told
	paused   chan struct{}
	stopping bool // the queue is about to stop
}

func newChannel(index int, r *remains.Remains, log *logrus.Entry) *channel {
	return &channel{index: index, queue: queues.New(index, r, log)}
}

// reclaim returns every chain of a channel without a worker to the driver: those that its worker
// held, and those that it never took. Not those of a program that is in a file: its next worker has
// them. Nor while the GPU may write to their pages: then they are owed.
func (d *Device) reclaim(c *channel) (owed bool) {
	if !c.queue.Runs() || d.mapped == nil || c.worker != nil || d.saving.Has(c.index) {
		return false
	}
	if c.owed = len(d.movers.Lingering()) > 0; !c.owed {
		c.queue.GiveBack(d.mapped)
	}
	return c.owed
}

// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue"
)

// rings are where those of a worker's queue are.
type rings struct {
	came chan struct{} // closed when that is known
	mu   sync.Mutex
	runs []wire.Run // guarded by mu
}

// HasRings says where the rings of its queue are, before it is told.
func (w *Worker) HasRings(q *handover.Queue) {
	w.rings.mu.Lock()
	defer w.rings.mu.Unlock()
	if w.rings.runs == nil {
		close(w.rings.came)
	}
	w.rings.runs = []wire.Run{
		{Address: q.Desc, Bytes: virtqueue.DescBytes(q.Size)},
		{Address: q.Avail, Bytes: virtqueue.AvailBytes(q.Size, q.EventIdx)},
		{Address: q.Used, Bytes: virtqueue.UsedBytes(q.Size, q.EventIdx)},
	}
}

// AwaitRings waits until it is known where the rings of its queue are, and says so. It returns none
// if the worker ends before.
func (w *Worker) AwaitRings() []wire.Run {
	select {
	case <-w.rings.came:
	case <-w.exited:
	}
	w.rings.mu.Lock()
	defer w.rings.mu.Unlock()
	return w.rings.runs
}

// SPDX-License-Identifier: Apache-2.0

package channels

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Filed is a Table as package infile sees it: the queues of programs that are in a file, which have
// no worker.
type Filed struct{ table *Table }

// Filed is for a VM that may be in a file.
func (t *Table) Filed() Filed { return Filed{t} }

// Len is how many channels there are.
func (f Filed) Len() int { return f.table.Len() }

// Standing is where the queue of a channel without a worker stands: its next avail index, and the
// heads that the former worker has left in flight.
func (f Filed) Standing(index int) (base uint16, held []uint16) {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	q := f.table.list[index].queue
	return q.Base(), slices.Clone(q.Held())
}

// Comes says where the queue of a channel without a worker stood elsewhere, before it starts here.
func (f Filed) Comes(index int, base uint16, held []uint16) {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	f.table.list[index].queue.Comes(base, held)
}

// Offered says whether a running queue has chains that nobody has taken.
func (f Filed) Offered(index int) (offered bool) {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	f.table.config.RAM.Use(func(mem *guestmem.Memory) {
		offered = mem != nil && f.table.list[index].queue.Offered(mem)
	})
	return offered
}

// Run says whether the queues of all programs in a file run.
func (f Filed) Run() bool {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	return !slices.ContainsFunc(f.table.list, func(c *channel) bool {
		return !c.queue.Runs() && c.config.Saved.Has(c.index)
	})
}

// LeftBy takes over what a worker of the previous device process has noted of a channel's queue.
// The worker is to end, as its program is in a file.
func (f Filed) LeftBy(index int, state *handover.State) {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	f.table.list[index].queue.LeftBy(state)
}

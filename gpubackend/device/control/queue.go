// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/device/queues"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Queue is the control queue of a VM, which the front end starts and stops. It keeps what lasts
// longer than that: what driver and device tell each other when the driver greets, and requests
// that are answered when the queue goes on.
type Queue struct {
	config   Config
	vouchers atomic.Uint64 // where the driver vouches for pages; 0: nowhere

	mu         sync.Mutex
	runs       *serving    // nil: it is stopped; guarded by mu, as is what follows
	late       *unanswered // when it was stopped last
	generation uint32      // tells this device from an earlier one
}

// New returns a stopped queue.
func New(c Config) *Queue {
	q := &Queue{config: c, generation: c.Generation}
	q.vouchers.Store(c.Vouchers)
	return q
}

// Start starts it in the guest's memory, which it uses until SetMemory.
func (q *Queue) Start(c vhostuser.QueueConfig, mem *guestmem.Memory) error {
	if mem == nil {
		return fmt.Errorf("start queue %d: %w", wire.ControlQueue, queues.ErrNoMemory)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if queues.Begins(c, mem) {
		q.dropLate()
	}
	q.late = q.late.at(c.Base)
	record, again := queues.ControlRecord(c, mem, q.config.Remains, q.config.Log)
	config := q.config
	config.Generation, config.vouched = q.generation, q.SetVouchers
	runs, greeted, err := serve(config, mem, c, q.late, record)
	if err != nil {
		return err
	}
	if q.config.Expect(greeted); greeted && again {
		q.config.Again()
	}
	q.runs, q.late = runs, nil
	return nil
}

// SetCall changes the descriptor by which it signals, if it runs.
func (q *Queue) SetCall(call *vhostuser.FD) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.runs == nil {
		return queues.ErrNotRunning
	}
	return q.runs.setCall(call)
}

// SetMemory moves it to other memory, if it runs.
func (q *Queue) SetMemory(mem *guestmem.Memory) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.runs == nil {
		return nil
	}
	return q.runs.setMemory(mem)
}

// Stop stops it, and returns its position. It waits without the lock, which its goroutine may need.
func (q *Queue) Stop() (base uint16, err error) {
	q.mu.Lock()
	runs := q.runs
	q.runs = nil
	q.mu.Unlock()
	if runs == nil {
		return 0, queues.ErrNotRunning
	}
	base, late := runs.stop()
	if late.nothing() {
		q.config.Remains.Drop(remains.Control)
	}
	q.mu.Lock()
	q.late = late
	q.mu.Unlock()
	return base, nil
}

// Runs says whether it runs.
func (q *Queue) Runs() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.runs != nil
}

// Unanswered says whether it was stopped before a request was answered.
func (q *Queue) Unanswered() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.late.isOpen()
}

// Forget drops requests that aren't answered yet: the VM is another one now.
func (q *Queue) Forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropLate()
}

func (q *Queue) dropLate() {
	if q.late != nil {
		q.late.drop()
		q.late = nil
	}
}

// Vouchers is the guest-physical address at which the driver vouches for pages; 0: it doesn't. It
// waits for nobody.
func (q *Queue) Vouchers() uint64 { return q.vouchers.Load() }

// SetVouchers sets it, also for the next process.
func (q *Queue) SetVouchers(address uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.vouchers.Store(address)
	q.config.Remains.Note(func(f *remains.Facts) { f.Vouchers = address })
}

// Generation is what the driver is told when it greets.
func (q *Queue) Generation() uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.generation
}

// GoOnAs sets the generation that an earlier device has told, for the next driver.
func (q *Queue) GoOnAs(generation uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.generation = generation
}

// SettingsChanged tells the driver of the new settings, and notes for the next process which ones
// the driver then has.
func (q *Queue) SettingsChanged() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.config.Remains.Note(func(f *remains.Facts) {
		f.Generation, f.Sequence = q.generation, q.config.Told().Sequence
	})
	if q.runs != nil {
		q.runs.settingsChanged()
	}
}

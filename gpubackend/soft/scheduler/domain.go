// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	"github.com/paracuda/paracuda/gpubackend"
)

// Domain is a fault domain: tasks that share an end. When it fails, those that run are told, and
// none of the others is run any more; they count as done when their turn comes.
type Domain struct {
	scheduler *Scheduler
	alive     context.Context // of what runs
	kill      context.CancelFunc

	// guarded by the scheduler's lock
	failure gpubackend.Result // why it failed, 0 for not at all
	pending int               // tasks that are not done
}

// NewDomain makes a domain without tasks, which ends with alive at the latest.
func (s *Scheduler) NewDomain(alive context.Context) *Domain {
	d := &Domain{scheduler: s}
	d.alive, d.kill = context.WithCancel(alive)
	return d
}

// Restart makes one that was drained and ended usable again.
func (d *Domain) Restart(alive context.Context) {
	d.alive, d.kill = context.WithCancel(alive)
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	d.failure = gpubackend.Success
}

// Alive ends when the domain fails or ends.
func (d *Domain) Alive() context.Context { return d.alive }

// End stops what still runs.
func (d *Domain) End() { d.kill() }

// Fail makes the domain fail for that reason, unless it has failed already.
func (d *Domain) Fail(why gpubackend.Result) {
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	if d.failure == gpubackend.Success {
		d.failure = why
		d.kill()
	}
}

// Failure is why the domain failed, or Success.
func (d *Domain) Failure() gpubackend.Result {
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	return d.failure
}

// Query is Failure, but NotReady while there are tasks to do in a domain that works.
func (d *Domain) Query() gpubackend.Result {
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	if d.failure == gpubackend.Success && d.pending > 0 {
		return gpubackend.NotReady
	}
	return d.failure
}

// Drain waits until all tasks are done. What only the caller could complete is given up.
func (d *Domain) Drain() {
	if d.idle() {
		return
	}
	d.Fail(gpubackend.ContextIsDestroyed)
	d.scheduler.DropHosts(d)
	d.idle()
}

// idle waits until all tasks are done, or those that are left wait for the caller.
func (d *Domain) idle() bool {
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	return d.scheduler.waitLocked(func() bool { return d.pending == 0 })
}

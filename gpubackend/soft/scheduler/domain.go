// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	"github.com/paracuda/paracuda/gpubackend"
)

// Domain is a fault domain: when it fails, those of its tasks that run are told, and no other is
// run any more; these count as done when their turn comes.
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

// Restart makes a domain that was drained and ended usable again.
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

// Query is Failure, or NotReady while a domain that hasn't failed has tasks to do.
func (d *Domain) Query() gpubackend.Result {
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	if d.failure == gpubackend.Success && d.pending > 0 {
		return gpubackend.NotReady
	}
	return d.failure
}

// Drain waits until all tasks are done. Tasks that only the caller could complete are given up.
func (d *Domain) Drain() {
	if d.idle() {
		return
	}
	d.Fail(gpubackend.ContextIsDestroyed)
	d.scheduler.DropHosts(d)
	d.idle()
}

// idle waits until all tasks are done, or those left wait for the caller.
func (d *Domain) idle() bool {
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	return d.scheduler.waitLocked(func() bool { return d.pending == 0 })
}

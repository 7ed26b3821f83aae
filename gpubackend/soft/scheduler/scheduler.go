// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Limits on what runs and what waits.
const (
	// maxKernels is how many kernels run at a time; each uses all processors.
	maxKernels = 32
	// MaxPending is how many tasks may wait before a call that adds one waits too.
	MaxPending = 1 << 14
	// MaxPendingHard is the number of waiting tasks at which adding one fails if only the caller
	// could make room.
	MaxPendingHard = 1 << 18
	// taskBytes is what a task counts for of the host's memory, until it is done; edgeBytes, each
	// task that it waits for.
	taskBytes = 512
	edgeBytes = 16
	// LaunchBytes is what a launch that waits counts for in addition to that and its parameters.
	// Throttle makes sure that there is as much.
	LaunchBytes = 1 << 10
)

// Scheduler runs tasks in the order of their dependencies.
type Scheduler struct {
	mu      sync.Mutex
	changed sync.Cond // a task ended, or began to wait for the host
	sleeper int       // goroutines in waitLocked

	pending int                // tasks that are not done
	active  int                // tasks that go on without the caller's help
	users   map[*Task]struct{} // active tasks that may touch memory
	hosts   map[*Task]struct{} // tasks that wait for the host's answer
	polled  int                // of hosts: what they wait for is in memory
	kernels int
	starved int     // of the kernels: wait for memory of the host's
	ended   uint64  // kernels that were run
	queue   []*Task // kernels that wait for others to end
	group   sync.WaitGroup
	host    *budget.Budget // that tasks count for until they are done
}

// New returns a scheduler whose tasks count for the host's memory that they take.
func New(host *budget.Budget) *Scheduler {
	s := &Scheduler{host: host, users: make(map[*Task]struct{}), hosts: make(map[*Task]struct{})}
	s.changed.L = &s.mu
	return s
}

// Submit adds t, to run when all of deps are done.
func (s *Scheduler) Submit(t *Task, deps []*Task) {
	s.mu.Lock()
	s.pending++
	if t.Domain != nil {
		t.Domain.pending++
	}
	for _, dep := range deps {
		if dep != nil && !dep.done {
			dep.next = append(dep.next, t)
			t.blockers++
		}
	}
	t.counts = taskBytes + t.Payload + edgeBytes*uint64(t.blockers)
	s.host.Force(t.counts)
	if t.blockers > 0 {
		s.mu.Unlock()
		return
	}
	ready := s.readyLocked(nil, t)
	if t.Quick && len(ready) == 1 && ready[0] == t {
		s.mu.Unlock()
		t.Run()
		s.mu.Lock()
		ready = s.leaveLocked(t)
	}
	s.spawnLocked(ready)
	s.mu.Unlock()
}

// readyLocked appends what may start now that t has no blockers: t, or what follows it when there
// is nothing to do.
func (s *Scheduler) readyLocked(ready []*Task, t *Task) []*Task {
	if t.Class == Marker || t.Domain != nil && t.Domain.failure != 0 {
		return s.completeLocked(ready, t)
	}
	if t.Class == Kernel {
		if s.kernels == maxKernels {
			s.queue = append(s.queue, t)
			return ready
		}
		s.kernels++
	}
	s.active++
	if t.Class == Memory || t.Class == Kernel {
		s.users[t] = struct{}{}
	}
	return append(ready, t)
}

// completeLocked marks t as done and appends to ready what may start as a result.
func (s *Scheduler) completeLocked(ready []*Task, t *Task) []*Task {
	now := time.Now()
	for work := []*Task{t}; len(work) > 0; {
		t, work = work[len(work)-1], work[:len(work)-1]
		t.done, t.at = true, now
		s.host.Give(t.counts)
		s.pending--
		if t.Domain != nil {
			t.Domain.pending--
		}
		if t.Then != nil {
			t.Then()
		}
		for _, n := range t.next {
			if n.blockers--; n.blockers > 0 {
				continue
			}
			if n.Class == Marker || n.Domain != nil && n.Domain.failure != 0 {
				work = append(work, n)
			} else {
				ready = s.readyLocked(ready, n)
			}
		}
		t.next, t.Run, t.Then = nil, nil, nil
	}
	if s.sleeper > 0 {
		s.changed.Broadcast()
	}
	return ready
}

func (s *Scheduler) spawnLocked(ready []*Task) {
	for _, t := range ready {
		s.group.Go(func() { s.execute(t) })
	}
}

// execute runs t and then one of the tasks that become ready by it, and so on.
func (s *Scheduler) execute(t *Task) {
	for t != nil {
		t.Run()
		s.mu.Lock()
		ready := s.leaveLocked(t)
		t = nil
		if len(ready) > 0 {
			t = ready[0]
			s.spawnLocked(ready[1:])
		}
		s.mu.Unlock()
	}
}

// leaveLocked ends the execution of t and returns what may start.
func (s *Scheduler) leaveLocked(t *Task) []*Task {
	s.active--
	delete(s.users, t)
	if t.Class == Host && !t.released {
		t.waiting = true
		s.hosts[t] = struct{}{}
		if s.sleeper > 0 {
			s.changed.Broadcast()
		}
		return nil
	}
	ready := s.completeLocked(nil, t)
	if t.Class == Kernel {
		s.kernels--
		s.ended++
		for len(s.queue) > 0 && s.kernels < maxKernels {
			t, s.queue = s.queue[0], s.queue[1:]
			ready = s.readyLocked(ready, t)
		}
	}
	return ready
}

// Release gives a host task its answer.
func (s *Scheduler) Release(t *Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	s.releaseLocked(t)
}

func (s *Scheduler) releaseLocked(t *Task) {
	t.released = true
	if t.waiting {
		t.waiting = false
		delete(s.hosts, t)
		s.spawnLocked(s.completeLocked(nil, t))
	}
}

// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Limits on what runs and what waits.
const (
	// maxKernels is how many kernels run at a time; each uses all processors.
	maxKernels = 32
	// maxPending is how many tasks may wait before a call that adds one waits too.
	maxPending = 1 << 14
	// maxPendingHard is where adding fails because only the caller could make room.
	maxPendingHard = 1 << 18
	// taskBytes is what a task counts for of the host's memory, until it is done.
	taskBytes = 512
)

// class says what a task needs while it runs.
type class uint8

const (
	marker  class = iota // nothing to run
	memory               // uses device or registered memory
	kernel               // the same, and processors
	host                 // calls the host and waits for its answer
	outside              // waits for another process
)

// A task is a piece of work in a stream. Fields are guarded by the scheduler's lock once it is submitted.
type task struct {
	class class
	ctx   *gpuContext // whose error keeps the task from running; nil for fences
	run   func()      // executed without the lock
	then  func()      // called with the lock held when the task is done, even if it didn't run
	quick bool        // may run on the caller's goroutine

	payload uint64 // bytes of the host's memory that run needs, beside the task

	blockers int // tasks that must be done first
	next     []*task
	waiting  bool // host: the function was called
	released bool // host: the answer came
	done     bool
	counts   uint64    // of the host's memory
	at       time.Time // when it was done
}

// scheduler runs tasks in the order of their dependencies.
type scheduler struct {
	mu      sync.Mutex
	changed sync.Cond // a task ended, or began to wait for the host
	sleeper int       // goroutines in waitLocked

	pending int                // tasks that are not done
	active  int                // tasks that go on without the caller's help
	users   map[*task]struct{} // active tasks that may touch memory
	hosts   map[*task]struct{} // tasks that wait for the host's answer
	kernels int
	starved int     // of the kernels: wait for memory of the host's
	ended   uint64  // kernels that were run
	queue   []*task // kernels that wait for others to end
	group   sync.WaitGroup
	host    *budget.Budget // that tasks count for until they are done
}

func newScheduler(host *budget.Budget) *scheduler {
	s := &scheduler{host: host, users: make(map[*task]struct{}), hosts: make(map[*task]struct{})}
	s.changed.L = &s.mu
	return s
}

// submit adds t, to run when all of deps are done.
func (s *scheduler) submit(t *task, deps []*task) {
	s.mu.Lock()
	s.pending++
	if t.ctx != nil {
		t.ctx.pending++
	}
	for _, dep := range deps {
		if dep != nil && !dep.done {
			dep.next = append(dep.next, t)
			t.blockers++
		}
	}
	t.counts = taskBytes + t.payload + edgeBytes*uint64(t.blockers)
	s.host.Force(t.counts)
	if t.blockers > 0 {
		s.mu.Unlock()
		return
	}
	ready := s.readyLocked(nil, t)
	if t.quick && len(ready) == 1 && ready[0] == t {
		s.mu.Unlock()
		t.run()
		s.mu.Lock()
		ready = s.leaveLocked(t)
	}
	s.spawnLocked(ready)
	s.mu.Unlock()
}

// readyLocked appends what may start now that t has no blockers: t, or what follows it when there is nothing to do.
func (s *scheduler) readyLocked(ready []*task, t *task) []*task {
	if t.class == marker || t.ctx != nil && t.ctx.failure != 0 {
		return s.completeLocked(ready, t)
	}
	if t.class == kernel {
		if s.kernels == maxKernels {
			s.queue = append(s.queue, t)
			return ready
		}
		s.kernels++
	}
	s.active++
	if t.class == memory || t.class == kernel {
		s.users[t] = struct{}{}
	}
	return append(ready, t)
}

// completeLocked marks t as done and appends to ready what may start therefore.
func (s *scheduler) completeLocked(ready []*task, t *task) []*task {
	now := time.Now()
	for work := []*task{t}; len(work) > 0; {
		t, work = work[len(work)-1], work[:len(work)-1]
		t.done, t.at = true, now
		s.host.Give(t.counts)
		s.pending--
		if t.ctx != nil {
			t.ctx.pending--
		}
		if t.then != nil {
			t.then()
		}
		for _, n := range t.next {
			if n.blockers--; n.blockers > 0 {
				continue
			}
			if n.class == marker || n.ctx != nil && n.ctx.failure != 0 {
				work = append(work, n)
			} else {
				ready = s.readyLocked(ready, n)
			}
		}
		t.next, t.run, t.then = nil, nil, nil
	}
	if s.sleeper > 0 {
		s.changed.Broadcast()
	}
	return ready
}

func (s *scheduler) spawnLocked(ready []*task) {
	for _, t := range ready {
		s.group.Go(func() { s.execute(t) })
	}
}

// execute runs t and then one of the tasks that become ready by it, and so on.
func (s *scheduler) execute(t *task) {
	for t != nil {
		t.run()
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
func (s *scheduler) leaveLocked(t *task) []*task {
	s.active--
	delete(s.users, t)
	if t.class == host && !t.released {
		t.waiting = true
		s.hosts[t] = struct{}{}
		if s.sleeper > 0 {
			s.changed.Broadcast()
		}
		return nil
	}
	ready := s.completeLocked(nil, t)
	if t.class == kernel {
		s.kernels--
		s.ended++
		for len(s.queue) > 0 && s.kernels < maxKernels {
			t, s.queue = s.queue[0], s.queue[1:]
			ready = s.readyLocked(ready, t)
		}
	}
	return ready
}

// release gives a host task its answer.
func (s *scheduler) release(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	s.releaseLocked(t)
}

func (s *scheduler) releaseLocked(t *task) {
	t.released = true
	if t.waiting {
		t.waiting = false
		delete(s.hosts, t)
		s.spawnLocked(s.completeLocked(nil, t))
	}
}

// waitLocked sleeps until done holds. It gives up when what is left waits for the caller.
func (s *scheduler) waitLocked(done func() bool) bool {
	for !done() {
		if s.active == 0 {
			return false
		}
		s.sleeper++
		s.changed.Wait()
		s.sleeper--
	}
	return true
}

// awaitKernel waits until a kernel has ended, for one that can't begin before. It returns false if none runs.
func (s *scheduler) awaitKernel() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernels-s.starved <= 1 {
		return false
	}
	s.starved++
	defer func() { s.starved-- }()
	before := s.ended
	s.waitLocked(func() bool { return s.ended != before || s.kernels == s.starved })
	return true
}

// waitUsers waits until no task that runs now touches memory any more.
func (s *scheduler) waitUsers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	users := make([]*task, 0, len(s.users))
	for t := range s.users {
		users = append(users, t)
	}
	s.waitLocked(func() bool {
		for len(users) > 0 && users[0].done {
			users = users[1:]
		}
		return len(users) == 0
	})
}

// throttle keeps the queue short. It returns false when there is no room and only the caller could make some.
func (s *scheduler) throttle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.host.Room(launchBytes) {
		return false
	}
	if s.pending < maxPending {
		return true
	}
	return s.waitLocked(func() bool { return s.pending < maxPending }) || s.pending < maxPendingHard
}

// isDone tells whether t, which may be nil, is done.
func (s *scheduler) isDone(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t == nil || t.done
}

// allDone tells whether none of the tasks is left to do.
func (s *scheduler) allDone(tasks []*task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		if t != nil && !t.done {
			return false
		}
	}
	return true
}

// dropHosts answers the tasks that wait for the host in its stead.
func (s *scheduler) dropHosts(which func(*task) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.hosts {
		if which(t) {
			s.releaseLocked(t)
		}
	}
}

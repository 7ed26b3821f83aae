// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
)

// waitLocked sleeps until done holds. It gives up when what is left waits for the caller.
func (s *Scheduler) waitLocked(done func() bool) bool {
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

// AwaitKernel waits until a kernel has ended, for one that can't begin before that. It returns
// false if none runs.
func (s *Scheduler) AwaitKernel() bool {
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

// WaitUsers waits until no task that runs now touches memory any more.
func (s *Scheduler) WaitUsers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	users := make([]*Task, 0, len(s.users))
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

// Throttle keeps the queue short. It returns false when there is no room and only the caller could
// make some.
func (s *Scheduler) Throttle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.host.Room(LaunchBytes) {
		return false
	}
	if s.pending < MaxPending {
		return true
	}
	return s.waitLocked(func() bool { return s.pending < MaxPending }) || s.pending < MaxPendingHard
}

// IsDone tells whether t, which may be nil, is done.
func (s *Scheduler) IsDone(t *Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t == nil || t.done
}

// AllDone tells whether none of the tasks is left to do.
func (s *Scheduler) AllDone(tasks []*Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		if t != nil && !t.done {
			return false
		}
	}
	return true
}

// DropHosts answers the tasks that wait for the host in the host's place: those of a domain, or all
// for nil.
func (s *Scheduler) DropHosts(of *Domain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.hosts {
		if of == nil || t.Domain == of {
			s.releaseLocked(t)
		}
	}
}

// GivenUp tells whether nobody waits for t any more, or its domain has failed.
func (s *Scheduler) GivenUp(t *Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.done || t.Domain.failure != gpubackend.Success
}

// Elapsed is the time between the ends of two tasks, negative if the second came first; false if
// one is not done yet.
func (s *Scheduler) Elapsed(from, to *Task) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !from.done || !to.done {
		return 0, false
	}
	return to.at.Sub(from.at), true
}

// AwaitsHost tells whether there are tasks that wait for the caller's answer, and none goes on
// without it.
func (s *Scheduler) AwaitsHost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active == 0 && s.polled == 0 && len(s.hosts) > 0
}

// Pending is how many tasks are not done.
func (s *Scheduler) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

// Wait waits until nothing runs any more, or for so long, and tells whether nothing runs.
func (s *Scheduler) Wait(longest time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		s.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(longest):
		return false
	}
}

// Ended says when a task was done; false if it isn't.
func (s *Scheduler) Ended(t *Task) (at time.Time, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.at, t.done
}

// Past returns a task that was done at that time.
func Past(at time.Time) *Task { return &Task{done: true, at: at} }

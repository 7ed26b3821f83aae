// SPDX-License-Identifier: Apache-2.0

package scheduler

import "time"

// Nobody tells when memory is written by somebody else: it is looked at after growing pauses.
const (
	minPollPause = 20 * time.Microsecond
	maxPollPause = time.Millisecond
)

// Poll gives t, a host task that runs or waits, its answer as soon as ready is true, which may
// touch memory. It is called at once and then from time to time, until the task's domain has failed
// or nobody waits for the task. Meanwhile t counts as one that waits for the caller.
func (s *Scheduler) Poll(t *Task, ready func() bool) {
	if s.look(t, ready) {
		s.Release(t)
		return
	}
	s.mu.Lock()
	s.polled++
	s.mu.Unlock()
	s.group.Go(func() {
		defer func() {
			s.mu.Lock()
			s.polled--
			s.mu.Unlock()
		}()
		for pause := minPollPause; !s.look(t, ready); pause = min(2*pause, maxPollPause) {
			time.Sleep(pause)
		}
		s.Release(t)
	})
}

// look calls ready as a task that touches memory, and says whether the task is over.
func (s *Scheduler) look(t *Task, ready func() bool) bool {
	s.mu.Lock()
	if t.done || t.released || t.Domain != nil && t.Domain.failure != 0 {
		s.mu.Unlock()
		return true
	}
	user := &Task{}
	s.users[user] = struct{}{}
	s.active++
	s.mu.Unlock()
	over := ready()
	s.mu.Lock()
	defer s.mu.Unlock()
	user.done = true
	delete(s.users, user)
	s.active--
	if s.sleeper > 0 {
		s.changed.Broadcast()
	}
	return over
}

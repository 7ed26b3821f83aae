// SPDX-License-Identifier: Apache-2.0

package scheduler

// Returned collects numbers that tasks give back when their time has come, for one goroutine that
// takes them.
type Returned struct {
	scheduler *Scheduler
	numbers   []uint64 // guarded by the scheduler's lock
}

// NewReturned returns an empty collection.
func (s *Scheduler) NewReturned() *Returned { return &Returned{scheduler: s} }

// After gives number back when all of deps are done.
func (r *Returned) After(number uint64, deps []*Task) {
	fence := &Task{Then: func() { r.numbers = append(r.numbers, number) }}
	r.scheduler.Submit(fence, deps)
}

// Take returns what was given back since the last call.
func (r *Returned) Take() []uint64 {
	r.scheduler.mu.Lock()
	defer r.scheduler.mu.Unlock()
	numbers := r.numbers
	r.numbers = nil
	return numbers
}

// Wait waits until there is something to take. It returns false if only the caller could cause
// that.
func (r *Returned) Wait() bool {
	r.scheduler.mu.Lock()
	defer r.scheduler.mu.Unlock()
	return r.scheduler.waitLocked(func() bool { return len(r.numbers) > 0 })
}

// Allowance bounds what tasks that are not done hold together. While nothing is held, any amount
// may be taken.
type Allowance struct {
	scheduler *Scheduler
	most      uint64
	held      uint64 // guarded by the scheduler's lock
}

// NewAllowance returns an allowance of which nothing is taken.
func (s *Scheduler) NewAllowance(most uint64) *Allowance {
	return &Allowance{scheduler: s, most: most}
}

// Take waits until n more may be held. It returns false if only the caller could make room.
func (a *Allowance) Take(n uint64) bool {
	a.scheduler.mu.Lock()
	defer a.scheduler.mu.Unlock()
	if !a.scheduler.waitLocked(func() bool { return a.held == 0 || a.held+n <= a.most }) {
		return false
	}
	a.held += n
	return true
}

// Return is the Then of the task that holds n.
func (a *Allowance) Return(n uint64) func() { return func() { a.held -= n } }

// Held is how much is held.
func (a *Allowance) Held() uint64 {
	a.scheduler.mu.Lock()
	defer a.scheduler.mu.Unlock()
	return a.held
}

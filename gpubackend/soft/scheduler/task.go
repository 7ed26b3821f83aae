// SPDX-License-Identifier: Apache-2.0

package scheduler

import "time"

// Class says what a task needs while it runs.
type Class uint8

// The classes of tasks.
const (
	Marker  Class = iota // nothing to run
	Memory               // uses device or registered memory
	Kernel               // the same, and processors
	Host                 // calls the host and waits for its answer
	Outside              // waits for another process
)

// A Task is a piece of work. Its submitter fills the exported fields, which belong to the Scheduler
// from then on.
type Task struct {
	Class   Class
	Domain  *Domain // whose error keeps the task from running; nil for fences
	Run     func()  // executed without the lock
	Then    func()  // called with the lock held when the task is done, even if it didn't run
	Quick   bool    // may run on the caller's goroutine
	Payload uint64  // bytes of the host's memory that Run needs, beside the task

	// guarded by the scheduler's lock once it is submitted
	blockers int // tasks that must be done first
	next     []*Task
	waiting  bool // host: the function was called
	released bool // host: the answer came
	done     bool
	counts   uint64    // of the host's memory
	at       time.Time // when it was done
}

// SPDX-License-Identifier: Apache-2.0

// Package scheduler runs tasks in the order of their dependencies, on goroutines of its own: all
// that a software GPU does asynchronously. It knows nothing of streams or contexts.
//
// A Task starts when the tasks that it depends on are done. One that is a host's function is done
// when its answer came, which only the caller can give (Release); no call waits for that. Tasks of
// a Domain share an end: when one fails, the others aren't run. What is to be taken back when work
// is done (Returned), and what work that waits may hold (Allowance), is guarded by the scheduler's
// lock, as all that tasks change when they are done.
//
// Files: task.go (what a task is), scheduler.go (the order), wait.go (waiting and asking), poll.go
// (tasks that wait for what is in memory), domain.go, held.go.
//
// All methods may be called on any goroutine, except that tasks are submitted by whoever knows that
// their dependencies come before them. Run is called without the lock, Then with it: it must not
// call anything here.
package scheduler

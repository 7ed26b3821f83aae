// SPDX-License-Identifier: Apache-2.0

// Package scheduler runs tasks in the order of their dependencies, on goroutines of its own: all
// that a software GPU does asynchronously. It knows nothing of streams or contexts.
//
// A Task starts when the tasks that it depends on are done. One that is a host function is done
// when its answer came, which only the caller can give (Release); no call waits for that. Tasks of
// a Domain fail together: after one has failed, no other is run. The scheduler's lock guards what
// tasks change when they are done: what they give back (Returned), and what tasks that wait may
// hold (Allowance).
//
// Files: task.go (what a task is), scheduler.go (the order), wait.go (waiting and asking), poll.go
// (tasks that wait for what is in memory), domain.go, held.go.
//
// All methods may be called on any goroutine, except that a task may be submitted only after those
// that it depends on. Run is called without the lock, Then with it: it must not call anything here.
package scheduler

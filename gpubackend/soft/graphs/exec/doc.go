// SPDX-License-Identifier: Apache-2.0

// Package exec owns the executable graphs of a software GPU.
//
// One is a copy of a graph and a list of steps, in an order in which they can be queued, each of
// which is a task when it is launched. The room that does the work of a node says how it becomes a
// task (Options.Prepare). A conditional node submits the tasks of its bodies when its turn comes,
// from the goroutine that it runs on.
//
// Files: exec.go (the room, instantiating), plan.go (the order of the steps), launch.go,
// conditional.go (conditional nodes), update.go, saved.go (for another device).
//
// An Exec belongs to one goroutine, but for conditional nodes, which touch nothing but tasks and
// conditions.
package exec

// SPDX-License-Identifier: Apache-2.0

// Package waiting has the calls of the guest's that wait for the GPU: for a context, a stream, an
// event, a point in a stream, or work of another room's. None holds up another: the worker's loop
// polls them between commands.
//
//	waiting.go    the calls, and how they begin to wait
//	poll.go       asks whether their wait is over, and answers them
//	announce.go   answers that the device writes itself
//	calls.go      the commands that wait
//	after.go      commands of other rooms that wait before they run
//
// # Answers that the device writes
//
// The guest sees such an answer as early as natively, and meanwhile the loop is free for the next
// command. The device doesn't announce failed work, so the driver is asked now and then. When an
// answer has come, the device is told, so that it need not ask the driver whether that work is
// over.
//
// # Who owns what
//
// The worker's loop owns a Waiting. A call that waits belongs to it until it is answered. What a
// call does after its wait is a function of the room that made it wait.
//
// # Who may lie
//
// The guest may write to its slots at any time, and fake the arrival of an answer: then it misses
// its own.
package waiting

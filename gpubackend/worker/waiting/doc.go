// SPDX-License-Identifier: Apache-2.0

// Package waiting has the calls of the guest's that wait for the GPU: for a context, a stream, an
// event, a point in a stream, or work of another room's. None of them holds up another one: the
// worker's loop polls them between commands.
//
//	waiting.go    the calls, and how they begin to wait
//	poll.go       asks whether their wait is over, and answers them
//	announce.go   answers that the device writes itself
//	calls.go      the commands that wait
//
// # Answers that the device writes
//
// The guest sees such an answer no later than it would natively, and the loop is free for the next
// command in the meantime. The device says nothing of work that fails: now and then the driver is
// asked. When an answer has come, the driver is told, so that it needn't be asked whether that work
// is over.
//
// # Who owns what
//
// The worker's loop owns a Waiting. A call that waits belongs to it until it is answered. What a
// call does after its wait is a function of the room that had it wait, which must be there still.
//
// # Who may lie
//
// The guest may write to its slots at any time, and have an answer look as if it had come: then it
// misses its own.
package waiting

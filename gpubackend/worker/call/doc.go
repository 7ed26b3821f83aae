// SPDX-License-Identifier: Apache-2.0

// Package call is one command while it is executed: its header and words, the buffers that its
// words refer to, and the words of its answer; and the table that says who executes which.
//
// # Who owns what
//
// The worker's loop has one Call and one Table. It starts the Call anew for each command and hands
// it to the command's Handler, which must not keep the Call. The rooms of the worker register their
// Handlers when the worker is made. Nothing here is for more than one goroutine.
//
// # Who may lie
//
// The guest wrote every word. A Handler says how many words it needs at least, and the loop checks
// that; beyond them a word is 0. Input, Text and Structure return a copy of a buffer, which doesn't
// change after it was checked; InPlace returns the guest's own bytes, which may change while they
// are read. Buffers are bounded, and copies count for the host memory that the guest process may
// take.
package call

// SPDX-License-Identifier: Apache-2.0

// Package takenover is a worker that somebody has taken over: it has all that a worker has when it
// serves a guest, in the same sandbox, and uses it against the processes that it can reach.
//
// The program is the host's own but for its main function (an overlay): a worker whose guest
// process has a name like "bad:7" does that deed, and any other is a worker as it should be. So the
// device process, the starter process and the mover are the real ones, and so is the sandbox.
//
// A deed ends with a report in the guest's memory, which it may write to. What it reached that it
// must not reach is in there, too.
//
// # Files
//
// takenover.go (all of it), messages.go (to the device process), copies.go, ring_unsafe.go and
// vouchers.go (to the mover), pages.go (memory that it shares), memory.go and mappings.go (the
// guest's), files.go (that it has made), calls.go (system calls).
package takenover

// SPDX-License-Identifier: Apache-2.0

// Package copies carries out the copies between the guest and the device.
//
// # Ways
//
//	small             the payload is in the command or in the arena's bulk area     copy.go
//	pinned            the driver reaches the pages at the guest's own address       copy.go
//	pageable          the mover copies, in chunks                                   chunk.go
//	  direct          between guest pages and memory that was lent to it            loan.go
//	  staged          through staging memory, from where the driver copies on       staging.go
//	                  what asks for the mover, and waits for it                     reach.go
//
// copies.go has what they need of others. queued.go makes the worker poll while short copies are
// under way.
//
// A pageable copy is an operation (operation.go): rows of a box (box.go), cut into chunks. Its call
// is answered when no chunk is left that it waits for. A large copy of one thread comes as several
// commands, its parts, which JOIN waits for (parts.go).
//
// # A chunk
//
// The picture shows each state and what ends it. The mover works on guest pages, the driver in
// stream order.
//
//	               ┌──────────────────────── free ◄───────────────────────────┐
//	               │           │                        │                     │
//	        direct       staged, to the device   staged, to the host          │
//	               │           │                        │                     │
//	               ▼           │                        ▼                     │
//	┌────────► settling        │                    carrying                  │
//	│ NotReady     │ earlier   │                        │ fence passed        │
//	└──────────────┤ work done │                        │                     │
//	               ▼           ▼                        ▼                     │
//	             moving      moving                   moving ── Moved ────────┤
//	               │           │ Moved                                        │
//	               │ Moved     ▼                                              │
//	               │       carrying ── fence passed ──────────────────────────┤
//	               └──────────────────────────────────────────────────────────┘
//
// Earlier work of a copy's stream may wait for another copy: for a kernel of another GPU, say,
// whose thread has to copy first. So not all chunks wait for such work: beyond a bound copies wait
// for it without a chunk (operation.go).
//
// A direct chunk skips settling if the context has no work. An error ends a chunk at once; the
// first one of several is its copy's result. To the device through staging memory, the call stops
// waiting for a chunk when it begins to be carried: the source has been read.
//
// # Who owns what
//
// The worker's loop owns Copies, which has the staging memory, the chunks and what is lent to the
// mover. A copy has a use of its map until it is over: the pages stay pinned. Memory is taken back
// from the mover before the device gives it up.
//
// # Who may lie
//
// All words are the guest's. Ranges are checked against the map or the arena, boxes against
// overflow and against planes that overlap; the driver judges device addresses. The mover is
// believed, except for numbers of copies that aren't under way.
package copies

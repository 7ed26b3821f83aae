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
// copies.go is what they need of others. queued.go has the worker poll while short copies are
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
// A chunk that settles skips that state if the context has no work. Any error ends it at once: it
// is its copy's, the first of several. To the device through staging memory, the call stops waiting
// for a chunk when it begins to be carried: the source has been read.
//
// # Who owns what
//
// The worker's loop owns Copies, which has the staging memory, the chunks and what is lent to
// the mover. A copy has a use of its map until it is over: the pages stay pinned. Memory that the
// device gives up is taken back from the mover first.
//
// # Who may lie
//
// All words are the guest's. Ranges are checked against the map or the arena, boxes against
// overflow and against planes that overlap; device addresses are the driver's to judge. The mover
// is believed, but for numbers of copies that aren't on their way.
package copies

// SPDX-License-Identifier: Apache-2.0

// Package maps has the pinned pages of the guest process that commands name: MAP chains
// (docs/protocol.md).
//
// # Who owns what
//
// The guest's kernel gives pages as a chain of the queue; the worker's loop has them until it
// returns the chain, or, if it keeps the pages, their id. Nothing may use them after that. So each
// use is counted: Use and Release, or Drop. A map for one command goes back when its last use ends,
// others when they are given back (Give) and no use is left. Source is the owner of the queue.
//
// # Who may lie
//
// The guest process names maps, and ranges in them, as it likes: all maps are its own, and ranges
// and the direction are checked. The kernel vouches for the pages; that they lie in guest memory
// was checked when the chain arrived.
package maps

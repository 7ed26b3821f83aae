// SPDX-License-Identifier: Apache-2.0

// Package graphs owns the graphs of a software GPU: their nodes and edges, the conditions that
// kernels set in them, the device memory that they allocate, and what all of it takes of the host's
// memory. Package exec, below this one, makes executable graphs of them.
//
// What a node does is replaced as a whole, never changed in place: work that is queued keeps what
// it was made of. Memory that a graph allocates keeps its address for as long as a graph has the
// node; a launch only notes that it is allocated.
//
// Files: graph.go (the room, graphs, adding nodes), node.go (what nodes do), list.go (edges),
// copy.go, condition.go, memory.go (what graphs allocate), limits.go (what they count for),
// saved.go (for another device), restored.go (the same again).
//
// Handles and descriptions come from the guest: they are looked up, copied and checked, and all is
// bounded (Charge). A Graphs belongs to one goroutine, but for conditions, which kernels set.
package graphs

// SPDX-License-Identifier: Apache-2.0

// Package pools has the guest's memory pools. The worker makes them out of ordinary device memory,
// so that their addresses lie in the window and their memory counts like all other.
//
// # Who owns what
//
// The worker's loop owns Pools, which own the memory of all pools. An allocation that is freed
// waits for its stream, marked by a fence; in that stream it may be reused at once. Memory of a
// pool ends with the context in which it was allocated. What pools hold beyond their thresholds
// goes back when something synchronises (Settle), and all that is idle when memory is short
// (Empty).
//
// Other GPUs may be given a pool. To the device a pool is all memory of its GPU, so it is told of
// the first pool of a GPU that another one is given, and when the last one is taken back.
//
// A pool goes to another process as a descriptor, where it is only a token: no memory is allocated
// from it. Memory goes under the secret of an offer, in whole segments of the driver; a segment has
// one offer, is mapped once by each process, and counts there once (share.go). All of that is made
// again from a record, under the same names (saved.go, join.go).
//
// # Who may lie
//
// Handles, addresses and tokens are the guest's, and are looked up. How many pools, freed
// allocations and offers there are is bounded. A record may say anything.
package pools

// SPDX-License-Identifier: Apache-2.0

// Package inflight keeps a record of the requests that a device has taken and not returned, in
// memory that outlives the device: after a crash, the next one finds there what to do again, in the
// order in which it was taken. It is the "inflight I/O tracking" of the vhost-user specification,
// for split rings.
//
// # Layout
//
// A Region has a Queue after the other, each at a multiple of 64 bytes:
//
//	u64 features (0), u16 version (1; 0: never used), u16 descriptors, u16 last batch head,
//	u16 used index, then for each descriptor:
//	u8 in flight, 5 bytes of padding, u16 next, u64 counter
//
// Descriptors that are returned together form a list by their next fields, from the last batch head
// on. Only when all of them are marked as returned, the used index here is set to the used ring's.
// If a device is cut off between the two, the indices differ by n, and the first n entries of the
// list have been returned. The counters say in which order the others were taken.
//
// # Trust
//
// The front end holds the memory and may write anything into it, at any time, or cut it short.
// Recover reads it once and checks what it reads; nothing else reads it. A hostile front end gains
// no more than that its own guest's requests are done twice or not at all. A fault makes the record
// Lost: the device goes on without it.
//
// # Concurrency
//
// A Queue belongs to one goroutine at a time. Close of its Region must come after its last use.
// Every change is one store of a word, in an order that keeps the record true at any moment.
package inflight

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
// on. Only when all of them are marked as returned the used index follows that of the used ring. A
// device that is cut off between the two leaves the indices different, by as many as the list's
// first entries that are returned already. The counters say in which order the others were taken.
//
// # Trust
//
// The front-end holds the memory and may write anything into it, at any time, or cut it short.
// Recover reads it once and checks what it reads; nothing else reads it. What a hostile front-end
// gains is that requests of its own guest are done twice, or not at all. A fault makes the record
// Lost: the device goes on without it.
//
// # Concurrency
//
// A Queue belongs to one goroutine at a time. Close of its Region must come after its last use.
// Every change is one store of a word, in an order that leaves the record true at any moment.
package inflight

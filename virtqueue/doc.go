// SPDX-License-Identifier: Apache-2.0

// Package virtqueue is the device side of the split virtqueue of virtio 1.x (virtio 1.3, 2.7) over
// guest memory: it takes descriptor chains from the avail ring, gives the bytes they describe, and
// returns them through the used ring in any order.
//
// # Trust
//
// The driver in the guest may write anything, at any time, into the rings, the descriptors and the
// buffers. Each descriptor is copied once and judged by its copy. Nothing that the device wrote is
// ever read back as truth, with one exception: the used index is read once, by New, since it says
// where an earlier device stopped; it only decides where in the used ring the next entry goes.
//
// Two kinds of error come of a hostile or broken driver:
//
//   - *ChainError: one chain is malformed. Its head is in flight; Push(head, 0) returns it to the
//     driver, and the queue goes on.
//   - *RingError: the rings themselves contradict each other, or their memory vanished. The queue
//     is broken: every later call returns the same error, until the device makes a new Queue.
//
// Neither ends the process, and no driver can make one call last longer than the number of
// descriptors a chain may have.
//
// # Concurrency
//
// A Queue and its Chains belong to one goroutine at a time. To complete chains elsewhere, hand
// their heads back to the owner. Pop and Push don't allocate once the queue has warmed up.
//
// # Waiting
//
// A consumer that polls calls DisableKick once, and Pop in a loop. Before it sleeps on the kick
// descriptor it calls EnableKick, and polls again if that reports more work:
//
//	for {
//		for c, ok, err := q.Pop(); ok; c, ok, err = q.Pop() { ... }
//		if more, err := q.EnableKick(); err == nil && !more { wait for the kick }
//		q.DisableKick()
//	}
//
// After one or more Push, NeedsNotify tells whether the driver wants an interrupt for them.
//
// # Dirty pages
//
// While the memory has a log of dirty pages (guestmem.Memory.Dirty), the queue marks each word of
// the used ring that it writes, and WriteAt the buffers. A fault in the middle leaves what was
// written before it unmarked: the queue is broken then, and the driver's side of it useless.
//
// # Crashes
//
// A Queue with a record of what is in flight (package inflight) may be cut off at any time: another
// one with the same record and rings goes on where it stopped. What was in flight is done again.
//
// Only little-endian hosts are supported, as guest and host share the words of the rings.
//
// # Files
//
//	a queue     queue.go layout.go (where the rings are) words_unsafe.go errors.go
//	chains      pop.go (taking them) chain.go (what is in them) push.go (returning them)
package virtqueue

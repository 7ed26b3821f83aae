// SPDX-License-Identifier: Apache-2.0

// Package virtqueuetest is the other side of virtqueue, for tests: a Guest with memory in memfds, a
// Driver that builds rings in it, well-formed or not, and a slow Oracle that says what a device may
// make of them.
//
// The oracle shares no code with virtqueue: it walks maps and lists one byte at a time and does
// its arithmetic in integers that can't wrap.
//
// Nothing here is safe for concurrent use, but a Driver and a virtqueue.Queue over the same guest
// may run in two goroutines, as a guest and its device do.
package virtqueuetest

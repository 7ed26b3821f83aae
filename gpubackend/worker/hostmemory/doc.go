// SPDX-License-Identifier: Apache-2.0

// Package hostmemory is memory of the guest process that the device reaches at the guest's own
// addresses, so that device pointer and host pointer are one: pages that it pinned, which kernels
// read and write (register.go, keep.go), and ordinary memory that copies of graphs read and write
// each time they run (pageable.go). Another worker pins the same pages again (saved.go). The room
// is hostmemory.go.
//
// # Who owns what
//
// The worker's loop owns a HostMemory, which owns the mappings that it made in the worker's address
// space, and counts them in Places. It has a use of each map whose pages are mapped: the guest's
// kernel gets them back no sooner. Pinned ranges that follow one another are one registration of
// the driver's, as they were one of the guest's. Ordinary memory stays: other pages take the place
// of those that were there.
//
// # Who may lie
//
// Addresses and sizes are the guest's and must be those that its kernel gave the map. What is in
// use in the worker's address space is never mapped over, but for what is the guest's already.
package hostmemory

// SPDX-License-Identifier: Apache-2.0

// Package guestmem maps the memory of a guest, and is the one place through which a device
// touches it.
//
// Guest memory arrives as regions. Each is a range of guest-physical addresses that lives at an
// offset in a file. New maps each region, shared and writable, and keeps a duplicate of the file
// descriptor, so that a range can also be named as (file, offset) and mapped again elsewhere.
//
// NewSparse is for a process that touches little of the memory: only that is mapped, in pages or
// huge pages, so that a wild access reaches nothing else of the guest's. NewNumbered is for one
// that has no descriptors of the files, either: another process decides on each mapping (package
// asked).
//
// # Trust
//
// The guest may change any byte at any time, so everything must be copied before it is checked. The
// front end that made the file may cut it short at any time, unless the file is sealed against
// shrinking; touching the lost pages then raises SIGBUS. Every access in this package is guarded:
// such a fault comes back as ErrFault and the process lives on. Code that touches a slice of guest
// memory by itself uses Guard or Recover to have the same. C code can't be guarded in this way:
// it may be given an address only if the region is ShrinkSealed.
//
// # Dirty pages
//
// Write marks the pages that it changes, for a front end that migrates the guest (package
// dirtylog). A Slice or a Run gives the bytes themselves: whoever writes to them must mark them
// (Dirty).
//
// # Concurrency
//
// A Memory doesn't change after New; all methods may be called from many goroutines. A sparse one
// has a lock, which guards what is mapped: Read and Write hold it until they have copied. Close
// unmaps, and refuses to do so while a user that called Hold hasn't called Release.
package guestmem

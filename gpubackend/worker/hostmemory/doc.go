// SPDX-License-Identifier: Apache-2.0

// Package hostmemory lets the device reach memory of the guest process at the guest's own
// addresses, so that device and host pointers are the same: pinned pages, which kernels read and
// write (register.go, keep.go), and ordinary memory that copies in graphs read and write each time
// they run (pageable.go). saved.go pins the same pages again in another worker. The room is
// hostmemory.go.
//
// # Who owns what
//
// The worker's loop owns a HostMemory, which owns the mappings that it made in the worker's address
// space, and counts them in Places. It has a use of each map whose pages are mapped, so that the
// guest's kernel doesn't get them back too early. Pinned ranges that follow one another are one
// registration with the driver, as they are one of the guest's. Ordinary memory stays mapped, until
// other pages replace it.
//
// # Who may lie
//
// Addresses and sizes are the guest's and must be those that its kernel gave the map. Nothing that
// is in use in the worker's address space is replaced, except the guest's own mappings.
package hostmemory

// SPDX-License-Identifier: Apache-2.0

// Package memory has the device memory: what a guest allocates, what it maps by itself, and what
// counts for the limit.
//
//	window.go   addresses reserved at the start, which package devmem divides; memory is made in
//	            large segments with the driver's virtual memory functions
//	placed.go   memory there for variables of code
//	pages.go    pages of the host's, made before they are overwritten
//	memory.go   allocating and freeing
//	reclaim.go  memory that was freed while work was in flight
//	charge.go   what others take of it: arrays, variables, limits, graphs; charges.go by handle
//	mapping.go  memory and addresses that the guest maps by itself; created.go that memory
//	peer.go     memory that several processes map, and host memory of this one
//	peers.go    other GPUs that reach a GPU's memory
//	moving.go   memory that leaves the GPU for a while; pump.go copies it, package sums sees
//	            whether it has changed, and staging.go has the buffers of both
//	saved.go    what lies where, for another process
//
// MemFree doesn't wait. Memory that was freed while work was in flight is reused when the context
// has been seen idle. If an allocation would fail without it, the context is waited for, as
// cuMemFree does natively. Addresses come from the guest as they are; handles have been looked up.
package memory

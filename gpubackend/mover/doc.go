// SPDX-License-Identifier: Apache-2.0

// Package mover copies payloads between the pages of a guest and memory that workers lend it: the
// device memory that a guest process allocated, or staging memory where that can't be lent.
//
// One mover process serves a VM's workers on all its GPUs. Each GPU copies to and from its own
// memory, by its own link to the host; it gets a context here when its memory is first lent. One
// that fails refuses its own copies, and the others go on. Only in the mover is guest RAM
// registered with CUDA, and it runs no code of a guest. If the RAM were
// registered in a worker, kernels that the guest process launches could reach all of it, also the
// memory of the guest's operating system.
//
// # Parties and trust
//
// The device process gives the mover guest memory and connections to workers (package handover) and
// is trusted. A worker may have been taken over by its guest process: each request is copied out of
// the shared ring and then checked against the memory that its own connection lent and against
// guest memory; a worker that breaks the ring's rules loses its connection, and nobody else
// notices. Whose pages are whose only the guest's driver knows: it vouches for those that a
// channel's worker may have copied, in memory of the guest's kernel, which the mover reads
// (vouchers.go). A driver that doesn't vouch for pages leaves it to the worker to say which these
// are. No other VM's memory is mapped in a mover.
//
// Guest memory can be cut short by its front end unless it is sealed, and so can a worker's staging
// file of the software GPU. The CPU touches both only under a guard that turns the fault into the
// request's error. Pages registered with CUDA are pinned and survive truncation; registration
// itself fails with an error, and then the payload is bounced through pinned memory under the
// guard.
//
// # Requests
//
// Client and server share a ring (ring.go): requests one way, completions the other, a word on each
// side that says who sleeps, and a socket pair for waking. Completions come in any order. Neither
// side waits for the other.
//
// # Goroutines
//
// One loop, on a locked thread, owns the engine, the connections and guest memory. A goroutine per
// connection and one for the device process read sockets and pass functions to the loop.
//
// # When a worker is gone
//
// Its copies may still be under way, and the guest must not get its pages back before they have
// ended. The device process sends the memory message once more, with the same table, after the
// worker's process has ended; the answer comes when nothing is copied for it any more.
//
// # Engines
//
// The software engine copies with the CPU, large requests on several cores. The CUDA engine
// registers guest RAM in granules on first use, copies long runs with the copy engines, and
// scattered ones with a kernel that takes a list of runs. All GPUs reach what one has registered,
// and it is unregistered in that one's context. From 256 KiB on a run is long: there the copy
// engines reach 52 GB/s if the runs of a request are queued together. For short runs they are
// slower than the kernel, which reaches 43 to 49 GB/s but shares the GPU with the programs' own
// kernels. The engine polls for completion, on the processors of the GPUs' NUMA nodes. If GPUs are
// on two nodes it uses both, since one process, in which guest RAM is registered once, serves all
// GPUs.
//
// # Files
//
//	a worker's side    client.go
//	the process        server.go (its loop) control.go (the device process) conn.go (a worker)
//	                   vouchers.go (what may be copied for it)
//	                   quota.go (what workers may lend) dirty.go
//	what both share    ring.go message.go status.go wake.go
//	guest memory       memory.go guard.go (faults)
//	engines            engine.go (jobs, regions) soft.go
//	                   cuda.go gpus.go (what a GPU has) failure.go (GPUs that are lost)
//	                   register.go (with CUDA) near.go (on which processors)
package mover

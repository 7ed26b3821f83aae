// SPDX-License-Identifier: Apache-2.0

// Package mover copies payloads between the pages of a guest and memory that workers lend it: the
// device memory that a guest process allocated, or staging memory where that can't be lent.
//
// One mover process serves a VM's workers on all its GPUs. Each GPU copies to and from its own
// memory, by its own link to the host: it has a context here from when memory of it is first lent.
// The mover is the only process in which guest RAM is
// registered with CUDA, and it runs no code of a guest: memory registered in a worker could be
// reached by every kernel that the guest process launches there, the guest's kernel included.
//
// # Parties and trust
//
// The device process gives the mover guest memory and connections to workers (package handover) and
// is believed. A worker may have been taken over by its guest process: each request is copied out
// of the shared ring and then checked against the memory that its own connection lent and against
// guest memory; a worker that breaks the ring's rules loses its connection, nobody else notices.
// What the mover can't check is whether pages belong to the worker's own guest process: only the
// guest driver knows, which told the worker. A worker vouches for its pages. One that was taken
// over can reach the RAM of its own VM, and no other's: the mover has nothing else mapped.
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
// connection and one for the device process read sockets and hand the loop functions to run.
//
// # When a worker is gone
//
// Its copies may be under way still, and the guest must not get its pages back before they have
// ended. The device process sends the memory message once more, with the same table, after the
// worker's process has ended; the answer comes when nothing is copied for it any more.
//
// # Engines
//
// The software engine copies with the CPU, large requests on several cores. The CUDA engine
// registers guest RAM in granules on first use, copies long runs with the copy engines, and
// scattered ones with a kernel that takes a list of runs. From 256 KiB on a run is long: the copy
// engines come to 52 GB/s there if the runs of a request are queued together, and to less than the
// kernel's 43 to 49 GB/s where they are short, while the kernel shares the GPU with what computes
// on it. It polls for completion, on the processors of the GPUs' NUMA nodes: with GPUs of two
// nodes on those of both, as one process, in which guest RAM is registered once, serves all.
//
// # Files
//
//	a worker's side    client.go
//	the process        server.go (its loop) control.go (the device process) conn.go (a worker)
//	                   quota.go (what workers may lend) dirty.go
//	what both share    ring.go message.go status.go wake.go words_unsafe.go
//	guest memory       memory.go guard.go (faults)
//	engines            engine.go (jobs, regions) soft.go
//	                   cuda.go gpus.go (what a GPU has) register.go (with CUDA)
//	                   near.go (on which processors)
package mover

// SPDX-License-Identifier: Apache-2.0

// Package worker executes the commands of one guest process. A worker is a process of its own: it
// has the guest process's CUDA context, serves its virtqueue and reads its command ring
// (docs/protocol.md). So no command passes through another process, and a fault in the context
// concerns that guest process only.
//
// # A core and rooms
//
// This package is the core: it starts, serves the queue, takes commands from the ring, waits and
// sleeps. What commands do is in rooms, packages below this one. A room registers its handlers in a
// table, never gets the worker, and is tested alone.
//
//	start              worker.go warm.go assemble.go (makes the rooms and the table)
//	ring               commands.go
//	device process     control.go takeover.go (another one) confine.go (what it leaves to it)
//	standing still     suspend.go
//	saved to a file    saved.go
//	the gate           gate.go
//	what is counted    hostmemory.go ledger.go
//
//	queue              the virtqueue: chains that are taken, and given back
//	dirty              which pages of the guest's are written to, for migration
//	call               a command while it is executed, and the table of handlers
//	hello              opens the device, and tells the guest process of the GPUs
//	sleeping           what the loop does when there is nothing to do; eventfd
//	standstill         the worker stands still: its queue, or its memory, is another's
//	inbox              messages of the device process
//	shortage           commands that lack device memory for now
//	faults             answers of a GPU that is broken, or gone
//	watchdog           calls of the driver that never end, memory that is too much
//	batches            where a batch of commands ends
//	waiting            calls that wait for the GPU
//	contexts           which context is current; primary and green ones
//	streams, code      find what the guest names; handles: everything else that it names
//	fences             points in streams
//	maps               pinned pages that commands name, and their uses
//	addresses          mappings of the address space, counted
//	endings            what goes with a context that ends; failure: the error of one that failed
//	protocol           commands that are steps of the protocol itself
//	known              what structures of the guest's may hold
//
//	functions          generated: functions that need nothing of the worker's own
//	admission          when the GPU is given work
//	launches           launches, collected (policy: gpubackend/launches)
//	copies             copies, by the driver and by the mover (gpubackend/moves), for which the
//	                   first one asks; reach: how the worker gets the mover
//	hostmemory         memory of the guest at its own addresses
//	hostfuncs          host functions
//	memory             virtual memory management
//	pools              memory pools
//	sharing            memory and events among processes; offers: how they are given;
//	                   exports: by the device process
//	graphs             names of graphs, records of nodes
//	green              green contexts and resources
//	textures           textures, surfaces, arrays
//	suspension         device memory that is moved out, and in again; kept: copies of it that
//	                   stay for the next time; sectors: checksums of it
//	history            the commands that made the objects, kept, and executed again
//	saving             writes all that a program has to a file, and makes it again
//	saved              what goes to a file of what is the worker's own
//	filed              which device memory is in the file that the program went on from
//	precopied          which device memory was copied while the program ran
//
// # Who owns what
//
// One goroutine, locked to its thread, owns the queue, the arena, the objects, the rooms and the
// Driver, and runs loop. A second one reads the control connection to the device process. It obeys
// messages that don't need the loop, among them other workers' (offers), and has the others handed
// over, whole; the loop answers those between commands. Two more come into play when the loop is
// held up inside a call of the driver's, which may wait for a stream that waits for the guest: one
// looks after host functions (package hostfuncs says what it shares with the loop), the other
// reports a call that never ends (watchdog). A further one ends a worker that has too much memory
// (watchdog).
//
// The worker knows the guest's memory by numbers, and maps only what it touches, with the device
// process's leave (guestmem.NewSparse). It receives files from nobody else.
//
// # Who may lie
//
// The guest process writes the arena and may write anything; the guest's kernel writes the rings,
// and vouches for the pages it maps. Words are copied once and checked, handles are looked up,
// ranges are checked against the arena or the MAP chain they name. Device addresses are the
// Driver's to judge. The device process is believed.
//
// # Waiting
//
// The loop never waits inside a call: a call that waits (synchronize, a copy through the mover) is
// kept by package waiting and polled between commands, so that it doesn't delay other threads of
// the guest process. With nothing to do the loop polls for Policy.SpinHostUs. After that it naps
// while a call waits for the GPU, which has no descriptor to sleep on: the guest need not wake it
// for the next command. Otherwise, and when that has lasted long, it sleeps on its descriptors.
//
// # The gate
//
// Where the VM has a gate, a command that gives the GPU work is executed only when it is admitted:
// it stays in the ring otherwise, with all that is behind it. Nothing else stops: what was taken
// from the ring goes on, waiting calls are answered, the queue and the device process are served.
// The API's description says which commands give the GPU work. Collected launches were admitted:
// they go to the driver even if the gate has closed since, and are in flight until they have ended.
package worker

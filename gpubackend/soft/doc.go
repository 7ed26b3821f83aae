// SPDX-License-Identifier: Apache-2.0

// Package soft is a GPU in software: a gpubackend.Driver that executes the PTX of CUDA programs on the CPU and
// answers as the CUDA driver does, error codes included. Package simt is its processor, this package everything
// around it: contexts, modules, memory, streams, events.
//
// # Memory
//
// Device memory is a file in memory, mapped at the addresses by which guests know it, so that a device pointer,
// once checked, is a pointer. What kernels may reach (pieces of device memory, registered host memory) is an
// immutable table that is swapped as a whole. The whole window of addresses stays mapped for the life of the
// device: a kernel that still uses what it looked up before a piece was given back reads zeros at worst. Pages are
// the host's and come on first use: a host that has none left ends the process with SIGBUS.
//
// MemFree takes effect at once for the caller; the memory is used again when the work that was queued before is
// done. An allocation that fails waits for such memory.
//
// # Work
//
// Everything asynchronous is a task that starts when the tasks that it depends on are done (type scheduler). A
// stream is a chain of tasks, the legacy default stream has edges to and from the blocking streams, an event is a
// task that does nothing but note the time. Tasks run on goroutines.
//
// # Arrays, textures and surfaces
//
// An array is device memory without gaps between rows. What kernels use of a texture or surface never changes: objects
// are found by number when an instruction runs, references of modules are what they were bound to when the launch was
// queued. Destroyed objects and arrays stay for the work that was queued before.
//
// # Graphs
//
// An executable graph is a copy of a graph and a list of steps, each of which is a task when it is launched. A stream
// that is captured adds nodes to a graph instead of tasks to the scheduler. Memory that a graph allocates has its place
// for as long as the graph lives; a launch only notes that it is allocated. A conditional node submits the tasks of its
// bodies when its turn comes, from the goroutine that it runs on. What graphs take of the host's memory is
// counted and bounded.
//
// # Waiting
//
// These calls may wait for work on the device, since their meaning is that nothing uses the thing any more:
// CtxDestroy, the last DevicePrimaryCtxRelease, DevicePrimaryCtxReset, HostUnregister, Close; MemAlloc and
// ModuleLoadData when memory is short and MemFree has promised some; and any call that queues work when very much
// is queued already. None waits for a host function, which only the caller could complete.
//
// # Trust and concurrency
//
// Handles are looked up again here, and every address is checked against the table. A Device belongs to one
// goroutine; what its tasks share with it is guarded by the scheduler's lock, taken before that of the output.
package soft

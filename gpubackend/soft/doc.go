// SPDX-License-Identifier: Apache-2.0

// Package soft is a GPU in software: a gpubackend.Driver that executes the PTX of CUDA programs on
// the CPU and answers as the CUDA driver does, error codes included.
//
// # Rooms
//
// The device is its rooms, packages below this one. Each owns its state and answers its part of the
// driver's functions; Device only puts them together, and promotes their functions. A room is given
// the rooms below it that it needs, or a function where one above has to be told. None gets the
// device. The names are those of the worker's rooms and of package cuda's.
//
//	contexts     the contexts, which one is current, their limits
//	memory       device memory; virtual memory management; memory that the mover maps
//	hostmemory   memory of this process that kernels may reach
//	code         modules, libraries, functions, links, managed variables
//	textures     arrays, texture and surface objects, references of modules
//	graphs       graphs, nodes, conditions, memory of graphs
//	streams      streams, events, host functions, captures
//	copies       copies and fills
//	launches     kernels
//	graphs/exec  executable graphs, their launches and updates
//	green        green contexts
//	sharing      memory and events of several processes
//
// A room imports only those above it in this list. There is no room for pools: the worker makes
// them of MemAlloc's memory.
//
// What rooms stand on has one idea each:
//
//	chip         what the device says that it is, and is checked against
//	handles      objects by number
//	scheduler    tasks in the order of their dependencies, and domains that fail as one
//	space        addresses that may be reached, and the bytes behind them
//	output       what kernels print
//	sharedevent  a page that processes share of an event
//	ptx, decoded, simt  the parser, what it has read as instructions, and the processor
//	loadstore    loads and stores of a warp
//	sampler      how textures are read
//	kernelheap, printf  malloc and messages of kernels
//	scalar, lanes  what instructions compute, for one thread and for those of a warp
//	softfloat    floating-point arithmetic that the host's processor doesn't have
//
// Here are device.go (New, Open, Close, and what several rooms have a part in), and the tests of
// whole devices. A function of CUDA's is found by its name in the room of its subject.
//
// # Unsafe
//
// Memory is touched by address in space/window_unsafe.go and sharedevent/sharedevent_unsafe.go, and
// in packages loadstore, lanes and sampler. Nowhere else.
//
// # Waiting
//
// These calls may wait for work on the device, since their meaning is that nothing uses the thing
// any more: CtxDestroy, the last DevicePrimaryCtxRelease, DevicePrimaryCtxReset, HostUnregister,
// Close; MemAlloc and ModuleLoadData when memory is short and MemFree has promised some; and any
// call that queues work when very much is queued already. None waits for a host function, which
// only the caller could complete.
//
// # Trust and concurrency
//
// Everything that a call is given may be a lie of the guest's: handles are looked up again here,
// and every address is checked against the table of space. Pages are the host's and come on first
// use: a host that has none left ends the process with SIGBUS. A Device belongs to one goroutine.
// What its tasks share with it is guarded by the scheduler's lock, which is taken before that of
// the output; conditions of graphs and numbers of textures, which kernels look up, have locks of
// their own, under which nothing else is taken.
package soft

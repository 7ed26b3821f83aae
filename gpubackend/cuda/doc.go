// SPDX-License-Identifier: Apache-2.0

// Package cuda is the GPU of the host behind the gpubackend.Driver interface: the CUDA driver API,
// reached through cgo and dlopen, so that one binary runs with and without it.
//
// # Rooms
//
// A Device consists of rooms, each a package with the few fields that it owns. No room gets the
// Device: each is given the rooms below it, an interface with the functions of the driver that it
// calls, and hooks for those above. Functions that no room has go straight to the driver.
//
//	driver      the binding of the library: one method for each function; cgo ends here
//	cmem        memory of C, for structures that the driver is given
//	hostfuncs   functions of Go that streams wait for
//
//	gpus        what is known of the GPUs
//	activity    which streams of a context may have work in flight
//	contexts    the contexts, which is current, and who is told when they come and go
//	copyable    which addresses the guest may have copied and filled
//	output      whether kernels print, and what
//	environment the variables that the driver reads
//
//	memory      device memory, what counts for its limit, and what the guest maps by itself
//	hostmemory  the guest's pages that kernels reach
//	copies      copies and fills
//	launches    launches and replays
//	streams     streams, events, captures, host functions
//	code        modules, libraries, functions, links, managed variables
//	graphs      graphs, their nodes, and the memory that they allocate; graphs/exec the executable
//	            ones, and how graphs are made again
//	textures    arrays, texture and surface objects, references
//	green       green contexts
//	limits      limits of contexts that take memory
//	sharing     memory and events of several processes
//	sums        whether memory has changed
//
// In this package are device.go, which makes the rooms, open.go and warm.go, which open the driver
// and describe its GPUs, attributes.go, which says which attributes guests get other values of,
// saved.go, which says what can be saved, and list.go, which lists a host's GPUs for people.
// Package drivertest has a driver's library for tests, selfcheck the checks on a real GPU.
//
// # Threads
//
// A Device belongs to one goroutine, which must be locked to its thread: the driver's current
// context belongs to the thread. No method calls back into Go on a thread of the driver.
//
// # Trust
//
// Handles have been looked up by the caller. Device addresses and modules come from a guest process
// as they are: the process that holds a Device serves only one guest process, and nobody else is
// hurt if it dies. Pointers that a guest could hide in options, attributes or images (a fatbin
// wrapper holds one) are refused here. A slice given to CopyIn is read by C: if it lies in memory
// that another party can truncate, truncation ends this process.
package cuda

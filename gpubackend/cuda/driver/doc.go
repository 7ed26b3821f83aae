// SPDX-License-Identifier: Apache-2.0

// Package driver calls the library of the host's CUDA driver (libcuda.so.1), which it opens at run
// time, so that one binary runs with and without it. It is a binding: a method for each function
// that Paracuda calls, with Go's types. It decides nothing and keeps nothing of the guest's; all
// that it owns is scratch memory for one call at a time.
//
// Functions are found by their exported names (each of which keeps its ABI forever) and called
// through pointers with arguments in C memory; no Go pointer is passed inside anything. NVIDIA's
// header is not used. Functions that the library lacks answer NotSupported.
//
// # Files
//
//	driver.go              opening and closing, the rooms, and who is told of streams that are
//	                       given work
//	library_cgo.go         one call: a frame of words in C memory (call.h, call.c)
//	scratch_cgo.go         launches, put together in C memory and queued many at a time
//	multidevice.go         a launch on several devices
//	series_cgo.go          launches as a CUDA graph, patched and launched again (series.h, series.c)
//	names.c                files by which the driver would name its threads
//	clustermap_cgo.go      the export table that cuBLASLt reads
//	symbols.go             the names of the functions that are called by hand
//	zz_generated_calls.go  the functions that gpubackend/api describes, and their names
//
// Methods by subject:
//
//	devices.go contexts.go green.go memory.go copies.go textures.go tensormap.go
//	code.go parameters.go (of functions) streams.go captures.go graphs.go
//
// # Threads and trust
//
// A Driver belongs to one goroutine, which must be locked to its thread: the current context
// belongs to the thread. Nothing is checked here: handles, addresses and sizes are the caller's to
// judge. A slice that a copy reads is read by C: if it lies in memory that another party can
// truncate, truncation ends this process.
package driver

// SPDX-License-Identifier: Apache-2.0

// Package cuda is the GPU of the host behind the gpubackend.Driver interface: the CUDA driver API, reached
// through cgo and dlopen, so that one binary runs with and without it.
//
// # Functions
//
// Functions are found by their exported names (libcuda keeps each with one ABI for ever) and called through
// pointers with arguments in C memory; no Go pointer is passed inside anything. Most methods are generated
// (zz_generated_calls.go); the others are written where the driver's form is not the interface's: structures,
// buffers, memory of the window, streams that have to be watched.
//
// # Memory
//
// MemAlloc serves from a window of addresses reserved at the start, which package devmem divides. Memory is made
// in large pieces with the virtual memory functions. MemFree doesn't wait: memory that was freed while work was in
// flight is used again only when the context has been seen idle, or when an allocation would fail without it, after
// waiting as cuMemFree does natively.
//
// # Threads
//
// A Device belongs to one goroutine, which must be locked to its thread: the driver's current context belongs to
// the thread. No method calls back into Go on a thread of the driver.
//
// # Trust
//
// Handles have been looked up by the caller. Device addresses and modules come from a guest process as they are: the process
// that holds a Device serves one guest process only, and is lost alone. Pointers that a guest could hide in options, attributes
// or images (a fatbin wrapper holds one) are refused here. A slice given to CopyIn is read by C: if it lies in
// memory that another party can truncate, truncation ends this process.
package cuda

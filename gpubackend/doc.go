// SPDX-License-Identifier: Apache-2.0

// Package gpubackend says what the commands of a guest mean: the functions of the CUDA driver API
// (described in api/cuda.def), the devices that execute them, and their results.
//
// Driver is the one interface to a GPU. It has two implementations: package cuda, the driver API of
// the host through cgo, and package soft, which executes PTX on the CPU. A worker owns one Driver,
// for one guest process, and calls it from one goroutine; nothing here is safe for concurrent use.
//
// Files: driver.go (the interface, and what is in no other file), graph.go, texture.go, mapping.go,
// sharing.go, green.go, moving.go (memory that leaves a GPU), comparing.go (what of it has
// changed), saving.go (all of it, for another process) with savinggraphs.go and savingtextures.go,
// result.go.
//
// Nothing in this package or below trusts a guest: handles are looked up (package object) before a
// Driver sees them, sizes and buffers are checked by the caller. Device addresses are the
// exception: they are passed on unchanged, and the device answers IllegalAddress.
package gpubackend

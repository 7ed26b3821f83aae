// SPDX-License-Identifier: Apache-2.0

// Package code owns the code of a software GPU: modules, libraries, their functions and kernels,
// links, and what they take of device memory and of the host's. Package ptx reads it, package simt
// runs it.
//
// A module is a program with globals of its own, in one context. A library is loaded once, and
// becomes a module of each context that uses it. What comes out of a link is PTX, which is loaded
// like any other.
//
// Files: code.go (the room), module.go, functions.go, library.go, managed.go (variables in
// the guest's memory), function.go, occupancy.go, linker.go, saved.go (what another device needs to
// know), build.go (from an image to a program, and the compiler's log).
//
// Images, names and options come from the guest: what is parsed is bounded by the host's memory
// that it may take. A Code belongs to one goroutine; programs that run don't change.
package code

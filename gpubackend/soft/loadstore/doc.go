// SPDX-License-Identifier: Apache-2.0

// Package loadstore executes the loads and stores of a warp: it finds out where each lane's access
// goes, checks it, and moves data between memory and registers.
//
// Addresses of global memory are addresses of this process, checked against what a Memory reports.
// Shared, local and parameter memory have windows above them (package decoded), and belong to the
// block, the warp and the launch.
//
// Each operation can be executed by a general function, which finds one lane's address after the
// other. The most common operations have a quick function, too, which handles all lanes that access
// one range, and leaves everything else, faults included, to the general one.
//
// # Who owns what
//
// A Unit belongs to a warp, whose registers it has, and a Cache to the goroutine of its block. The
// memory belongs to others: it must stay mapped as long as accesses are executed.
//
// # Who may lie
//
// Addresses are a guest's: any number is checked, for its alignment too, before it is used. What is
// in memory may be anything. Operands, sizes and offsets are package decoded's, and are believed.
//
// # Files
//
//	unit.go            what an access is executed with
//	memory.go          addresses; loads and stores in general
//	accesses.go        which function executes which operation
//	quick_unsafe.go    the quick ways; vector_unsafe.go: for several elements
//	avx_*.go           what they have in assembly
//	atomic.go          atomic operations; mbarrier.go: barriers in memory
//	memory_unsafe.go   memory by its address
package loadstore

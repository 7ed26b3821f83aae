// SPDX-License-Identifier: Apache-2.0

// Package decoded turns the PTX of a module into a program: instructions of a compact form, whose
// operands are registers at fixed places. It executes nothing: what an instruction computes on
// registers is a function of package lanes, all else is the number of an operation, which package
// simt executes.
//
// # Who owns what
//
// A Program belongs to one load of a module. It is made by one goroutine (Load, Link) and is not
// changed afterwards: any number of launches read it at the same time. Its memory is taken from an
// account of the caller's, which gives it back.
//
// # Who may lie
//
// The module comes from a guest: instructions that aren't known, operands that don't fit them, too
// many registers and too much of anything are errors of Load, which name the line. What is decoded
// stays inside its registers, calls and parameters; addresses of memory are checked when it is
// executed.
//
// # Files
//
//	a program       program.go load.go reference.go weigh.go (what it takes of the host's memory)
//	an instruction  inst.go op.go (operations) quick.go (accesses with a way of their own)
//	a function      function.go specials.go window.go (where addresses are)
//	decoding        decode.go opcodes.go modifiers.go, and a file for each kind of instruction:
//	                atomic.go bits.go builtin.go carry.go compare.go control.go convert.go
//	                float.go integer.go mbarrier.go memory.go move.go texture.go video.go warp.go
package decoded

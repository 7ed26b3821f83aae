// SPDX-License-Identifier: Apache-2.0

// Package ptx reads PTX, the text form of NVIDIA's virtual instruction set, as nvcc 11.8 to 13.x
// emits it (PTX ISA 6.0 to 9.0, 64-bit addresses), into a Module whose names are resolved:
// registers are numbers, labels are indices of instructions, variables and functions are
// references.
//
// The package knows PTX's grammar and its scopes. It does not know single instructions: an opcode
// and its modifiers stay words here, and package decoded refuses the ones it doesn't know with an
// Error of the same type. Debug information (.loc, .file, .section) is skipped.
//
// The text comes from a guest and is not trusted: sizes are bounded, and no input causes a panic. A
// Module is immutable after Parse and safe for concurrent use.
//
// # Files
//
//	what is read   module.go variable.go function.go inst.go operand.go
//	reading        parser.go (a module) tokens.go body.go (of a function); variable.go, function.go
//	               and operand.go read what they declare
package ptx

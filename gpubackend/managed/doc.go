// SPDX-License-Identifier: Apache-2.0

// Package managed rewrites device code with managed variables (__managed__), so that they lie where
// the caller has memory for them: a driver that loads the result sees plain code that uses
// addresses.
//
// Two forms of code are rewritten.
//   - A cubin, an ELF file: code takes a variable's address from words that relocations fill. Those
//     words are filled here, and their relocations removed. The symbol loses the mark
//     (STO_CUDA_MANAGED in st_other) that tells a managed variable from a plain one: what nvcc
//     writes for __device__ differs in nothing else. Kinds of relocations other than those below,
//     which all compilers of CUDA 11 and 12 were seen to use, are refused.
//   - PTX: an address stands in a register that is loaded where a function begins, since PTX has no
//     address constants in .global space. The declaration goes. Names are told apart by tokens and
//     by where they stand; a use that was overlooked would be an unknown name to the assembler,
//     never another variable.
//
// The initial content may hold addresses that only the driver knows. So the rewritten code has a
// plain variable for it, which the driver fills and Variable.Content names.
//
// Plain variables are placed in the same way (OpenPlain), where the caller wants them at addresses
// of its own: there, content that is in a cubin is the caller's to write. Code that would still
// depend on a place that only the driver knows is refused.
//
// The image comes from a guest and is not trusted: every length is checked before it is used, what
// is made from an image is bounded, and no input causes a panic. Code is immutable and safe for
// concurrent use.
//
// # Files
//
//	images      code.go (what the caller gets) image.go (finding one) footprint.go (their memory)
//	            stays.go (variables of all kinds) plain.go (placing those that aren't managed)
//	            functions.go (addresses of functions)
//	cubins      cubin.go elf.go
//	PTX         ptx.go declare.go (declarations) scan.go (tokens) rewrite.go body.go (uses)
package managed

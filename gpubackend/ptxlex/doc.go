// SPDX-License-Identifier: Apache-2.0

// Package ptxlex cuts PTX, the text form of NVIDIA's virtual instruction set, into tokens, for the
// PTX ISA 6.0 to 9.0. It knows words, numbers, strings and comments, but not what they mean.
//
// The text comes from a guest and is not trusted: no input panics. A Lexer belongs to one
// goroutine.
package ptxlex

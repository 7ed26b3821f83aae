// SPDX-License-Identifier: Apache-2.0

// Package scalar has what PTX instructions compute for one thread: functions of up to three
// numbers, made for an operation and a type. The results are a GPU's, NaNs and out-of-range cases
// included.
//
// A function is made once, when a program is decoded, and called for each thread. It keeps nothing,
// and may be called from any goroutine. Numbers come from a guest: any are allowed.
//
// # Files
//
//	func.go        what a function is
//	integer.go     arithmetic, shifts; bits.go: fields, masks, permutations, dot products
//	float.go       arithmetic and functions (most of it by package softfloat)
//	style.go       flushing, clamping, packed halves
//	comparison.go  comparisons and selections
//	conversion.go  cvt
//	video.go       SIMD video instructions
//	update.go      what atomic operations change
package scalar

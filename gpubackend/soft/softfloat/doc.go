// SPDX-License-Identifier: Apache-2.0

// Package softfloat has the floating-point arithmetic of a GPU that the processor doesn't have:
// formats of 16 bits, directions of rounding, and quick approximations. It has no state.
//
//	format.go    encodes and decodes numbers of any format of up to 64 bits. Operations whose
//	             names end in Odd give double-precision results rounded to odd, which a format of
//	             less precision can round again without an error.
//	double.go    operations on float64 with a direction of rounding
//	approx.go    powers and logarithms, good to about 30 bits
package softfloat

// Rounding is a direction of rounding.
type Rounding uint8

// The directions that PTX has.
const (
	Nearest Rounding = iota // ties to even
	Zero
	Down
	Up
)

// SPDX-License-Identifier: Apache-2.0

package softfloat

import (
	"math"
	"math/big"
)

// Operations on float64 with a direction of rounding. They round to nearest
// first and then correct the result by an exact comparison, which is slow; nvcc
// emits them for the intrinsics that ask for a direction only.

// Add is a + b.
func Add(a, b float64, mode Rounding) float64 {
	s := a + b
	if mode == Nearest || !finite(a, b) {
		return s
	}
	if s == 0 && mode == Down && math.Signbit(a) != math.Signbit(b) {
		return math.Copysign(0, -1)
	}
	sign := compareExact(s, func(num func(float64) *big.Float) (*big.Float, *big.Float) {
		x := num(a)
		return x.Add(x, num(b)), num(s)
	})
	return tame(direct(s, sign, mode), mode)
}

// Mul is a * b.
func Mul(a, b float64, mode Rounding) float64 {
	s := a * b
	if mode == Nearest || !finite(a, b) {
		return s
	}
	sign := compareExact(s, func(num func(float64) *big.Float) (*big.Float, *big.Float) {
		x := num(a)
		return x.Mul(x, num(b)), num(s)
	})
	return tame(direct(s, sign, mode), mode)
}

// FMA is a*b + c, rounded once.
func FMA(a, b, c float64, mode Rounding) float64 {
	s := math.FMA(a, b, c)
	if mode == Nearest || !finite(a, b, c) {
		return s
	}
	if s == 0 && mode == Down && math.Signbit(a) != (math.Signbit(b) != math.Signbit(c)) &&
		a*b+c == 0 {
		s = math.Copysign(0, -1)
	}
	sign := compareExact(s, func(num func(float64) *big.Float) (*big.Float, *big.Float) {
		x := num(a)
		x.Mul(x, num(b))
		return x.Add(x, num(c)), num(s)
	})
	return tame(direct(s, sign, mode), mode)
}

// Div is a / b.
func Div(a, b float64, mode Rounding) float64 {
	s := a / b
	if mode == Nearest || !finite(a, b) || b == 0 {
		return s
	}
	sign := compareExact(s, func(num func(float64) *big.Float) (*big.Float, *big.Float) {
		x := num(s)
		return num(a), x.Mul(x, num(b))
	})
	return tame(direct(s, sign*signOf(b), mode), mode)
}

// Sqrt is the square root of a.
func Sqrt(a float64, mode Rounding) float64 {
	s := math.Sqrt(a)
	if mode == Nearest || !finite(a, s) {
		return s
	}
	sign := compareExact(s, func(num func(float64) *big.Float) (*big.Float, *big.Float) {
		x := num(s)
		return num(a), x.Mul(x, x)
	})
	return direct(s, sign, mode)
}

// SPDX-License-Identifier: Apache-2.0

package softfloat

import "math"

// The functions below are good to about 30 bits: more than the approximations of
// a GPU have (2 units in the last place of 24 bits), and quicker than those of
// package math.

// Exp2 is 2^x: the integral part of x becomes the exponent, and a polynomial
// gives the power of the rest, which lies in [-0.5, 0.5].
func Exp2(x float64) float64 {
	if !(x >= -1000 && x <= 1000) {
		return math.Exp2(x)
	}
	n := math.RoundToEven(x)
	t := (x - n) * math.Ln2
	// The series of e^t up to t^9.
	p := 1.0 / 362880
	for _, c := range [...]float64{1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6,
		0.5, 1, 1} {
		p = p*t + c
	}
	return p * math.Float64frombits(uint64(int64(n)+1023)<<52)
}

// Log2 is the logarithm to base 2: the exponent of x, and a series for its
// significand m, taken between sqrt(1/2) and sqrt(2).
func Log2(x float64) float64 {
	if !(x >= 0x1p-1022 && x <= math.MaxFloat64) {
		return math.Log2(x)
	}
	b := math.Float64bits(x)
	e := int64(b>>52) - 1023
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	if m > math.Sqrt2 {
		m, e = m/2, e+1
	}
	// log(m) = 2 atanh(s) with s = (m-1)/(m+1), |s| < 0.172.
	s := (m - 1) / (m + 1)
	z := s * s
	p := 1.0 / 15
	for _, c := range [...]float64{1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1} {
		p = p*z + c
	}
	return float64(e) + p*s*(2/math.Ln2)
}

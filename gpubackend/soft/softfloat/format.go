// SPDX-License-Identifier: Apache-2.0

package softfloat

import (
	"math"
	"math/big"
	"math/bits"
)

// Format is a binary floating-point format of up to 64 bits.
type Format struct {
	// Precision counts the bits of the significand, the hidden one included.
	Precision int
	// least is the exponent of the smallest normal number, greatest that of
	// the largest.
	least, greatest int
}

// The formats of PTX.
var (
	Half   = Format{11, -14, 15}
	Brain  = Format{8, -126, 127}
	Single = Format{24, -126, 127}
	Double = Format{53, -1022, 1023}
)

// SignBit is the bit of the sign.
func (f *Format) SignBit() uint64 {
	return 1 << (f.Precision + bits.Len(uint(f.greatest)))
}

// Infinity is the positive one.
func (f *Format) Infinity() uint64 {
	return uint64(f.greatest-f.least+2) << (f.Precision - 1)
}

// NaN is the one that GPUs make: all bits set except the sign.
func (f *Format) NaN() uint64 { return f.SignBit() - 1 }

// Round encodes (-1)^neg * m * 2^e, with sticky set if the exact magnitude is
// a little above that. m must have at least two bits more than the precision
// when sticky is set.
func (f *Format) Round(neg bool, m uint64, e int, sticky bool, mode Rounding) uint64 {
	sign := uint64(0)
	if neg {
		sign = f.SignBit()
	}
	if m == 0 {
		return sign
	}
	top := e + bits.Len64(m) - 1
	quantum := max(top, f.least) - (f.Precision - 1)
	r, half, rest := m, false, sticky
	switch shift := quantum - e; {
	case shift > 64:
		r, rest = 0, true
	case shift == 64:
		r, half, rest = 0, m>>63 != 0, rest || m<<1 != 0
	case shift > 0:
		r, half, rest = m>>shift, m>>(shift-1)&1 != 0, rest || m&(1<<(shift-1)-1) != 0
	default:
		r = m << -shift
	}
	up := false
	switch mode {
	case Nearest:
		up = half && (rest || r&1 != 0)
	case Down:
		up = neg && (half || rest)
	case Up:
		up = !neg && (half || rest)
	}
	if up {
		if r++; r>>f.Precision != 0 {
			r >>= 1
			quantum++
		}
	}
	exponent := quantum + f.Precision - 1
	if exponent > f.greatest {
		return sign | f.overflow(neg, mode)
	}
	return sign | uint64(exponent-f.least)<<(f.Precision-1) + r
}

// overflow is the magnitude of a result that is too large.
func (f *Format) overflow(neg bool, mode Rounding) uint64 {
	if mode == Zero || mode == Down && !neg || mode == Up && neg {
		return f.Infinity() - 1
	}
	return f.Infinity()
}

// Encode encodes x, which is exact or was rounded to odd.
func (f *Format) Encode(x float64, mode Rounding) uint64 {
	neg := math.Signbit(x)
	switch {
	case x != x:
		return f.NaN()
	case math.IsInf(x, 0):
		if neg {
			return f.SignBit() | f.Infinity()
		}
		return f.Infinity()
	}
	m, e := significand(x)
	return f.Round(neg, m, e, false, mode)
}

// significand splits a finite |x| into m * 2^e.
func significand(x float64) (m uint64, e int) {
	b := math.Float64bits(x)
	m, e = b&(1<<52-1), int(b>>52&0x7ff)
	if e == 0 {
		return m, -1074
	}
	return m | 1<<52, e - 1075
}

// Value decodes b.
func (f *Format) Value(b uint64) float64 {
	m := b & (1<<(f.Precision-1) - 1)
	e := int(b & (f.SignBit() - 1) >> (f.Precision - 1))
	var x float64
	switch {
	case b&(f.SignBit()-1) > f.Infinity():
		return math.NaN()
	case b&(f.SignBit()-1) == f.Infinity():
		x = math.Inf(1)
	case e == 0:
		x = math.Ldexp(float64(m), f.least-f.Precision+1)
	default:
		x = math.Ldexp(float64(m|1<<(f.Precision-1)), e-1+f.least-f.Precision+1)
	}
	if b&f.SignBit() != 0 {
		return math.Copysign(x, -1)
	}
	return x
}

// toOdd turns s, the nearest to an exact value, into the value rounded to odd:
// rounding that again to a format with two bits less gives what rounding the
// exact value would. errSign is the sign of the exact value minus s.
func toOdd(s float64, errSign int) float64 {
	b := math.Float64bits(s)
	if errSign == 0 || b&1 != 0 || s != s || math.IsInf(s, 0) {
		return s
	}
	if (errSign > 0) == (s > 0) {
		return math.Float64frombits(b + 1)
	}
	return math.Float64frombits(b - 1)
}

func signOf(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// sumError is the exact error of s = a + b rounded to nearest.
func sumError(a, b, s float64) float64 {
	bb := s - a
	return (a - (s - bb)) + (b - bb)
}

// The following compute with operands of 24 bits or less and round to odd.

// AddOdd is a + b. A product of two such operands may be one of them: it is exact.
func AddOdd(a, b float64) float64 {
	s := a + b
	return toOdd(s, signOf(sumError(a, b, s)))
}

// FMAOdd is a*b + c.
func FMAOdd(a, b, c float64) float64 { return AddOdd(a*b, c) }

// DivOdd is a / b.
func DivOdd(a, b float64) float64 {
	q := a / b
	if math.IsInf(q, 0) || q != q || math.IsInf(b, 0) {
		return q
	}
	return toOdd(q, signOf(math.FMA(-q, b, a))*signOf(b))
}

// SqrtOdd is the square root of a.
func SqrtOdd(a float64) float64 {
	q := math.Sqrt(a)
	if math.IsInf(q, 0) || q != q {
		return q
	}
	return toOdd(q, signOf(math.FMA(-q, q, a)))
}

// exactPrecision is enough for any product and sum of three float64.
const exactPrecision = 4500

// compareExact gives the sign of exact - s, where exact is computed by f from
// the operands.
func compareExact(s float64, f func(num func(float64) *big.Float) (exact, nearest *big.Float)) int {
	num := func(x float64) *big.Float {
		return new(big.Float).SetPrec(exactPrecision).SetFloat64(x)
	}
	if math.IsInf(s, 0) || s != s {
		return 0
	}
	exact, nearest := f(num)
	return exact.Cmp(nearest)
}

// direct moves s, the nearest float64, in the direction of mode if the exact
// value lies that way.
func direct(s float64, errSign int, mode Rounding) float64 {
	switch {
	case mode == Nearest || errSign == 0:
	case mode == Up && errSign > 0:
		return math.Nextafter(s, math.Inf(1))
	case mode == Down && errSign < 0:
		return math.Nextafter(s, math.Inf(-1))
	case mode == Zero && errSign != 0 && errSign != signOf(s) && s != 0:
		return math.Nextafter(s, 0)
	}
	return s
}

// tame replaces an infinity that is the result of overflow by the value that mode gives.
func tame(s float64, mode Rounding) float64 {
	if !math.IsInf(s, 0) {
		return s
	}
	if magnitude := Double.overflow(s < 0, mode); magnitude != Double.Infinity() {
		return math.Copysign(math.Float64frombits(magnitude), s)
	}
	return s
}

func finite(x ...float64) bool {
	for _, v := range x {
		if math.IsInf(v, 0) || v != v {
			return false
		}
	}
	return true
}

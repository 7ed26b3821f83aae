// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// NaNs. GPUs give one and the same NaN for all results narrower than 64 bits;
// in double precision they hand operands' NaNs on and otherwise give the one
// with the sign set, as x86 does.
const (
	nan32     = 0x7fffffff
	nan64     = 0x7ff8000000000000
	invalid64 = 0xfff8000000000000
	quiet64   = 1 << 51
)

func toF32(a uint64) float32 { return math.Float32frombits(uint32(a)) }
func toF64(a uint64) float64 { return math.Float64frombits(a) }

func bits32(x float32) uint64 {
	if x != x {
		return nan32
	}
	return uint64(math.Float32bits(x))
}

// bits64 is the result r of an operation on operands, the first NaN of which it
// becomes.
func bits64(r float64, operands ...uint64) uint64 {
	if r == r {
		return math.Float64bits(r)
	}
	for _, a := range operands {
		if a<<1 > 0x7ff<<53 {
			return a | quiet64
		}
	}
	return invalid64
}

// flush32 replaces a subnormal float32 by zero of its sign.
func flush32(a uint64) uint64 {
	if a&0x7f800000 == 0 {
		return a & 0x80000000
	}
	return a
}

// formatOf is the format of a floating-point type, of the halves for packed
// ones.
func formatOf(t ptx.Type) *softfloat.Format {
	switch t {
	case ptx.F16, ptx.F16x2:
		return &softfloat.Half
	case ptx.BF16, ptx.BF16x2:
		return &softfloat.Brain
	case ptx.F32:
		return &softfloat.Single
	}
	return &softfloat.Double
}

// floatStyle is how a floating-point operation treats its operands and result.
type floatStyle struct {
	typ       ptx.Type
	mode      softfloat.Rounding
	ftz, sat  bool
	relu, nan bool
}

// apply wraps f, which computes on one element, with what style asks for.
func (s floatStyle) apply(f scalarFunc) scalarFunc {
	if f == nil {
		return nil
	}
	switch {
	case s.ftz && s.typ == ptx.F32:
		f = flushing(f)
	case s.ftz && s.typ == ptx.F16:
		f = flushing16(f)
	case s.ftz && s.typ == ptx.F16x2:
		f = flushing16(f)
	}
	if s.sat {
		f = saturating01(f, formatOf(s.typ))
	}
	if s.relu {
		f = clampingBelow(f, formatOf(s.typ))
	}
	if s.typ == ptx.F16x2 || s.typ == ptx.BF16x2 {
		f = packed(f)
	}
	return f
}

func flushing(f scalarFunc) scalarFunc {
	return func(a, b, c uint64) uint64 { return flush32(f(flush32(a), flush32(b), flush32(c))) }
}

func flushing16(f scalarFunc) scalarFunc {
	flush := func(a uint64) uint64 {
		if a&0x7c00 == 0 {
			return a & 0x8000
		}
		return a
	}
	return func(a, b, c uint64) uint64 { return flush(f(flush(a), flush(b), flush(c))) }
}

// saturating01 clamps a result to [0, 1]; NaN becomes 0.
func saturating01(f scalarFunc, fm *softfloat.Format) scalarFunc {
	one := fm.Encode(1, softfloat.Nearest)
	return func(a, b, c uint64) uint64 {
		r := f(a, b, c)
		if r > fm.Infinity() {
			return 0
		}
		return min(r, one)
	}
}

// clampingBelow makes negative results 0 and keeps NaN.
func clampingBelow(f scalarFunc, fm *softfloat.Format) scalarFunc {
	return func(a, b, c uint64) uint64 {
		r := f(a, b, c)
		if r&(fm.SignBit()-1) > fm.Infinity() {
			return fm.NaN()
		}
		if r&fm.SignBit() != 0 {
			return 0
		}
		return r
	}
}

// packed applies f to both halves of 32-bit operands.
func packed(f scalarFunc) scalarFunc {
	return func(a, b, c uint64) uint64 {
		lo := f(a&0xffff, b&0xffff, c&0xffff) & 0xffff
		return lo | f(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
	}
}

// floatOp2 makes the scalar function of add, sub, mul, div, min or max.
func floatOp2(op string, s floatStyle) scalarFunc {
	if op == "min" || op == "max" {
		return minMax(s.typ, op == "min", s.nan)
	}
	switch s.typ {
	case ptx.F64:
		return doubleOp2(op, s.mode)
	case ptx.F32:
		if s.mode == softfloat.Nearest {
			return singleOp2(op)
		}
	}
	fm := formatOf(s.typ)
	var exact func(a, b float64) float64
	switch op {
	case "add":
		exact = softfloat.AddOdd
	case "sub":
		exact = func(a, b float64) float64 { return softfloat.AddOdd(a, -b) }
	case "mul":
		exact = func(a, b float64) float64 { return a * b }
	case "div":
		exact = softfloat.DivOdd
	}
	if s.typ == ptx.F32 {
		return func(a, b, _ uint64) uint64 {
			x, y := float64(toF32(a)), float64(toF32(b))
			r := exact(x, y)
			if r == 0 && op != "mul" && op != "div" && s.mode == softfloat.Down &&
				math.Signbit(x) != (math.Signbit(y) != (op == "sub")) {
				return 1 << 31
			}
			return direct32(r, s.mode)
		}
	}
	cancels := op == "add" || op == "sub"
	return func(a, b, _ uint64) uint64 {
		x, y := fm.Value(a), fm.Value(b)
		r := exact(x, y)
		if cancels && r == 0 && s.mode == softfloat.Down &&
			math.Signbit(x) != (math.Signbit(y) != (op == "sub")) {
			return fm.SignBit()
		}
		return fm.Encode(r, s.mode)
	}
}

func singleOp2(op string) scalarFunc {
	switch op {
	case "add":
		return func(a, b, _ uint64) uint64 { return bits32(toF32(a) + toF32(b)) }
	case "sub":
		return func(a, b, _ uint64) uint64 { return bits32(toF32(a) - toF32(b)) }
	case "mul":
		return func(a, b, _ uint64) uint64 { return bits32(toF32(a) * toF32(b)) }
	case "div":
		return func(a, b, _ uint64) uint64 { return bits32(toF32(a) / toF32(b)) }
	}
	return nil
}

func doubleOp2(op string, mode softfloat.Rounding) scalarFunc {
	switch op {
	case "add":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Add(toF64(a), toF64(b), mode), a, b)
		}
	case "sub":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Add(toF64(a), -toF64(b), mode), a, b)
		}
	case "mul":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Mul(toF64(a), toF64(b), mode), a, b)
		}
	case "div":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Div(toF64(a), toF64(b), mode), a, b)
		}
	}
	return nil
}

// minMax orders by value with -0 below +0; a NaN loses against a number unless
// nan asks for it.
func minMax(t ptx.Type, least, nan bool) scalarFunc {
	fm := formatOf(t)
	sign, inf := fm.SignBit(), fm.Infinity()
	canon := fm.NaN()
	if t == ptx.F64 {
		canon = nan64
	}
	key := func(a uint64) uint64 {
		if a&sign != 0 {
			return sign - 1 - a&(sign-1)
		}
		return a | sign
	}
	return func(a, b, _ uint64) uint64 {
		aNaN, bNaN := a&(sign-1) > inf, b&(sign-1) > inf
		switch {
		case aNaN && (bNaN || nan), bNaN && nan:
			return canon
		case aNaN:
			return b
		case bNaN, (key(a) < key(b)) == least:
			return a
		}
		return b
	}
}

// floatFma makes the scalar function of fma.
func floatFma(s floatStyle) scalarFunc {
	switch {
	case s.typ == ptx.F64:
		return func(a, b, c uint64) uint64 {
			return bits64(softfloat.FMA(toF64(a), toF64(b), toF64(c), s.mode), a, b, c)
		}
	case s.typ == ptx.F32 && s.mode == softfloat.Nearest:
		return func(a, b, c uint64) uint64 { return bits32(fma32(toF32(a), toF32(b), toF32(c))) }
	}
	if s.typ == ptx.F32 {
		return func(a, b, c uint64) uint64 {
			x, y, z := float64(toF32(a)), float64(toF32(b)), float64(toF32(c))
			r := softfloat.FMAOdd(x, y, z)
			if r == 0 && s.mode == softfloat.Down &&
				math.Signbit(x) != (math.Signbit(y) != math.Signbit(z)) {
				return 1 << 31
			}
			return direct32(r, s.mode)
		}
	}
	fm := formatOf(s.typ)
	return func(a, b, c uint64) uint64 {
		x, y, z := fm.Value(a), fm.Value(b), fm.Value(c)
		r := softfloat.FMAOdd(x, y, z)
		if r == 0 && s.mode == softfloat.Down &&
			math.Signbit(x) != (math.Signbit(y) != math.Signbit(z)) {
			return fm.SignBit()
		}
		return fm.Encode(r, s.mode)
	}
}

// direct32 rounds x, which is exact or rounded to odd, in a direction.
func direct32(x float64, mode softfloat.Rounding) uint64 {
	r := float32(x)
	switch back := float64(r); {
	case back > x && (mode == softfloat.Down || mode == softfloat.Zero && x > 0):
		r = math.Nextafter32(r, float32(math.Inf(-1)))
	case back < x && (mode == softfloat.Up || mode == softfloat.Zero && x < 0):
		r = math.Nextafter32(r, float32(math.Inf(1)))
	}
	if r == 0 && x < 0 {
		return 1 << 31
	}
	return bits32(r)
}

// fma32 is a*b + c rounded once. The product is exact in float64; rounding the
// sum twice is wrong only where the first rounding ends half-way between two
// float32, or where the result is subnormal.
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	if math.Float64bits(s)&0x1fffffff == 0x10000000 || s < 0x1p-126 && s > -0x1p-126 {
		s = softfloat.AddOdd(p, z)
	}
	return float32(s)
}

// floatUnaryOp makes the scalar function of neg, abs, and the functions.
func floatUnaryOp(op string, s floatStyle) scalarFunc {
	fm := formatOf(s.typ)
	if op == "neg" || op == "abs" {
		return signOp(op, s.typ)
	}
	f := floatFunctions[op]
	if f == nil {
		return nil
	}
	if s.typ == ptx.F64 {
		return doubleFunction(op, f, s.mode)
	}
	if s.mode == softfloat.Nearest {
		if s.typ == ptx.F32 {
			return func(a, _, _ uint64) uint64 { return bits32(float32(f(float64(toF32(a))))) }
		}
		return func(a, _, _ uint64) uint64 { return fm.Encode(f(fm.Value(a)), softfloat.Nearest) }
	}
	switch op {
	case "sqrt":
		return func(a, _, _ uint64) uint64 {
			return fm.Encode(softfloat.SqrtOdd(fm.Value(a)), s.mode)
		}
	case "rcp":
		return func(a, _, _ uint64) uint64 {
			return fm.Encode(softfloat.DivOdd(1, fm.Value(a)), s.mode)
		}
	}
	return nil
}

// signOp is neg or abs. A NaN becomes the usual one, or stays as it is in double
// precision.
func signOp(op string, t ptx.Type) scalarFunc {
	fm := formatOf(t)
	sign, inf, nan := fm.SignBit(), fm.Infinity(), fm.NaN()
	return func(a, _, _ uint64) uint64 {
		switch magnitude := a & (sign - 1); {
		case magnitude > inf && t != ptx.F64:
			return nan
		case op == "abs":
			return magnitude
		case magnitude > inf:
			return a
		}
		return a ^ sign
	}
}

func doubleFunction(op string, f func(float64) float64, mode softfloat.Rounding) scalarFunc {
	switch op {
	case "sqrt":
		return func(a, _, _ uint64) uint64 { return bits64(softfloat.Sqrt(toF64(a), mode), a) }
	case "rcp":
		return func(a, _, _ uint64) uint64 { return bits64(softfloat.Div(1, toF64(a), mode), a) }
	}
	return func(a, _, _ uint64) uint64 { return bits64(f(toF64(a)), a) }
}

// floatFunctions are computed in float64, far better than the approximations
// of a GPU.
var floatFunctions = map[string]func(float64) float64{
	"sqrt":  math.Sqrt,
	"rcp":   func(x float64) float64 { return 1 / x },
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"sin":   math.Sin,
	"cos":   math.Cos,
	"lg2":   softfloat.Log2,
	"ex2":   softfloat.Exp2,
	"tanh":  math.Tanh,
}

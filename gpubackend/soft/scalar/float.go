// SPDX-License-Identifier: Apache-2.0

package scalar

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// NaNs. For results narrower than 64 bits GPUs give always the same NaN. In double precision they
// return an operand's NaN, and otherwise the one with the sign set, as x86 does.
const (
	NaN32     = 0x7fffffff
	NaN64     = 0x7ff8000000000000
	Invalid64 = 0xfff8000000000000
	Quiet64   = 1 << 51
)

func toF32(a uint64) float32 { return math.Float32frombits(uint32(a)) }

// ToF64 is the number of 64 bits.
func ToF64(a uint64) float64 { return math.Float64frombits(a) }

func bits32(x float32) uint64 {
	if x != x {
		return NaN32
	}
	return uint64(math.Float32bits(x))
}

// bits64 is the result r of an operation on operands; if there are NaNs among these, the first of
// them.
func bits64(r float64, operands ...uint64) uint64 {
	if r == r {
		return math.Float64bits(r)
	}
	for _, a := range operands {
		if a<<1 > 0x7ff<<53 {
			return a | Quiet64
		}
	}
	return Invalid64
}

// Flush32 replaces a subnormal float32 by zero of its sign.
func Flush32(a uint64) uint64 {
	if a&0x7f800000 == 0 {
		return a & 0x80000000
	}
	return a
}

// FormatOf is the format of a floating-point type, of the halves for packed
// ones.
func FormatOf(t ptx.Type) *softfloat.Format {
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

// Float is add, sub, mul, div, min or max of floating-point numbers, without what Style.Apply adds.
func Float(op string, s Style) Func {
	if op == "min" || op == "max" {
		return minMax(s.Type, op == "min", s.NaN)
	}
	switch s.Type {
	case ptx.F64:
		return doubleOp2(op, s.Rounding)
	case ptx.F32:
		if s.Rounding == softfloat.Nearest {
			return singleOp2(op)
		}
	}
	fm := FormatOf(s.Type)
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
	if s.Type == ptx.F32 {
		return func(a, b, _ uint64) uint64 {
			x, y := float64(toF32(a)), float64(toF32(b))
			r := exact(x, y)
			if r == 0 && op != "mul" && op != "div" && s.Rounding == softfloat.Down &&
				math.Signbit(x) != (math.Signbit(y) != (op == "sub")) {
				return 1 << 31
			}
			return direct32(r, s.Rounding)
		}
	}
	cancels := op == "add" || op == "sub"
	return func(a, b, _ uint64) uint64 {
		x, y := fm.Value(a), fm.Value(b)
		r := exact(x, y)
		if cancels && r == 0 && s.Rounding == softfloat.Down &&
			math.Signbit(x) != (math.Signbit(y) != (op == "sub")) {
			return fm.SignBit()
		}
		return fm.Encode(r, s.Rounding)
	}
}

func singleOp2(op string) Func {
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

func doubleOp2(op string, mode softfloat.Rounding) Func {
	switch op {
	case "add":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Add(ToF64(a), ToF64(b), mode), a, b)
		}
	case "sub":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Add(ToF64(a), -ToF64(b), mode), a, b)
		}
	case "mul":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Mul(ToF64(a), ToF64(b), mode), a, b)
		}
	case "div":
		return func(a, b,
			_ uint64) uint64 {
			return bits64(softfloat.Div(ToF64(a), ToF64(b), mode), a, b)
		}
	}
	return nil
}

// minMax orders by value with -0 below +0; a NaN loses against a number unless
// nan asks for it.
func minMax(t ptx.Type, least, nan bool) Func {
	fm := FormatOf(t)
	sign, inf := fm.SignBit(), fm.Infinity()
	canon := fm.NaN()
	if t == ptx.F64 {
		canon = NaN64
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

// FMA is fma, with one rounding.
func FMA(s Style) Func {
	switch {
	case s.Type == ptx.F64:
		return func(a, b, c uint64) uint64 {
			return bits64(softfloat.FMA(ToF64(a), ToF64(b), ToF64(c), s.Rounding), a, b, c)
		}
	case s.Type == ptx.F32 && s.Rounding == softfloat.Nearest:
		return func(a, b, c uint64) uint64 { return bits32(FMA32(toF32(a), toF32(b), toF32(c))) }
	}
	if s.Type == ptx.F32 {
		return func(a, b, c uint64) uint64 {
			x, y, z := float64(toF32(a)), float64(toF32(b)), float64(toF32(c))
			r := softfloat.FMAOdd(x, y, z)
			if r == 0 && s.Rounding == softfloat.Down &&
				math.Signbit(x) != (math.Signbit(y) != math.Signbit(z)) {
				return 1 << 31
			}
			return direct32(r, s.Rounding)
		}
	}
	fm := FormatOf(s.Type)
	return func(a, b, c uint64) uint64 {
		x, y, z := fm.Value(a), fm.Value(b), fm.Value(c)
		r := softfloat.FMAOdd(x, y, z)
		if r == 0 && s.Rounding == softfloat.Down &&
			math.Signbit(x) != (math.Signbit(y) != math.Signbit(z)) {
			return fm.SignBit()
		}
		return fm.Encode(r, s.Rounding)
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

// FMA32 is a*b + c rounded once. The product is exact in float64; rounding the
// sum twice is wrong only where the first rounding ends half-way between two
// float32, or where the result is subnormal.
func FMA32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	if math.Float64bits(s)&0x1fffffff == 0x10000000 || s < 0x1p-126 && s > -0x1p-126 {
		s = softfloat.AddOdd(p, z)
	}
	return float32(s)
}

// FloatUnary is neg, abs, or a function such as sqrt and sin.
func FloatUnary(op string, s Style) Func {
	fm := FormatOf(s.Type)
	if op == "neg" || op == "abs" {
		return signOp(op, s.Type)
	}
	f := floatFunctions[op]
	if f == nil {
		return nil
	}
	if s.Type == ptx.F64 {
		return doubleFunction(op, f, s.Rounding)
	}
	if s.Rounding == softfloat.Nearest {
		if s.Type == ptx.F32 {
			return func(a, _, _ uint64) uint64 { return bits32(float32(f(float64(toF32(a))))) }
		}
		return func(a, _, _ uint64) uint64 { return fm.Encode(f(fm.Value(a)), softfloat.Nearest) }
	}
	switch op {
	case "sqrt":
		return func(a, _, _ uint64) uint64 {
			return fm.Encode(softfloat.SqrtOdd(fm.Value(a)), s.Rounding)
		}
	case "rcp":
		return func(a, _, _ uint64) uint64 {
			return fm.Encode(softfloat.DivOdd(1, fm.Value(a)), s.Rounding)
		}
	}
	return nil
}

// signOp is neg or abs. A NaN becomes the usual one, or stays as it is in double
// precision.
func signOp(op string, t ptx.Type) Func {
	fm := FormatOf(t)
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

func doubleFunction(op string, f func(float64) float64, mode softfloat.Rounding) Func {
	switch op {
	case "sqrt":
		return func(a, _, _ uint64) uint64 { return bits64(softfloat.Sqrt(ToF64(a), mode), a) }
	case "rcp":
		return func(a, _, _ uint64) uint64 { return bits64(softfloat.Div(1, ToF64(a), mode), a) }
	}
	return func(a, _, _ uint64) uint64 { return bits64(f(ToF64(a)), a) }
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

// Coarse is rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: only the upper half of
// operand and result counts, subnormals are flushed.
func Coarse(op string) Func {
	f := floatFunctions[op]
	flush := func(a uint64) uint64 {
		if a&0x7ff0000000000000 == 0 {
			a &= 1 << 63
		}
		return a &^ 0xffffffff
	}
	return func(a, _, _ uint64) uint64 {
		r := f(ToF64(flush(a)))
		return flush(bits64(r, a))
	}
}

// CopySign is the magnitude of b with the sign of a.
func CopySign(t ptx.Type) Func {
	sign := FormatOf(t).SignBit()
	return func(a, b, _ uint64) uint64 { return a&sign | b&^sign }
}

// Classify is testp: whether a number is of a class.
func Classify(t ptx.Type, class string) Func {
	fm := FormatOf(t)
	inf, least := fm.Infinity(), uint64(1)<<(fm.Precision-1)
	return func(a, _, _ uint64) uint64 {
		a &= fm.SignBit() - 1
		switch class {
		case "finite":
			return Bit(a < inf)
		case "infinite":
			return Bit(a == inf)
		case "number":
			return Bit(a <= inf)
		case "notanumber":
			return Bit(a > inf)
		case "normal":
			return Bit((a >= least || a == 0) && a < inf)
		}
		return Bit(a != 0 && a < least)
	}
}

// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// style takes the modifiers that floating-point operations share, the type
// included.
func (m *modifiers) style() floatStyle {
	s := floatStyle{mode: m.round(), ftz: m.has("ftz"), sat: m.has("sat"), nan: m.has("NaN"),
		relu: m.has("relu")}
	s.typ = m.typ()
	return s
}

// key names an operation of this style for the table of fast versions; styles
// without one have the key "".
func (s floatStyle) key(op string) string {
	if s.mode != softfloat.Nearest || s.sat || s.relu || s.nan || s.ftz && s.typ != ptx.F32 {
		return ""
	}
	if s.ftz {
		return op + ".ftz.f32"
	}
	return op + "." + s.typ.String()
}

// floatBinary decodes add, sub, mul, min and max.
func (d *decoder) floatBinary(op string, in *ptx.Inst, m *modifiers) error {
	if m.has("xorsign") || m.has("abs") {
		return errType
	}
	s := m.style()
	if !s.typ.Float() {
		return errType
	}
	t := s.typ
	if len(in.Args) == 4 {
		return errOperands
	}
	return d.compute(s.key(op), s.apply(floatOp2(op, s)), in.Args, t, t, t)
}

func (d *decoder) floatUnary(op string, in *ptx.Inst, m *modifiers) error {
	s := m.style()
	if !s.typ.Float() {
		return errType
	}
	return d.compute(s.key(op), s.apply(floatUnaryOp(op, s)), in.Args, s.typ, s.typ)
}

func decodeFma(d *decoder, in *ptx.Inst, m *modifiers) error {
	s := m.style()
	if !s.typ.Float() {
		return errType
	}
	return d.compute(s.key("fma"), s.apply(floatFma(s)), in.Args, s.typ, s.typ, s.typ, s.typ)
}

// floatDivide decodes div of floating-point types; the approximations are
// computed exactly.
func (d *decoder) floatDivide(in *ptx.Inst, m *modifiers) error {
	approx := m.oneOf("approx", "full") != ""
	s := m.style()
	if s.typ != ptx.F32 && s.typ != ptx.F64 {
		return errType
	}
	f := s.apply(floatOp2("div", s))
	if approx && s.ftz {
		// x / infinity is 0 and huge divisors give 0, with or without .ftz.
		f = s.apply(floatOp2("div", s))
	}
	return d.compute(s.key("div"), f, in.Args, s.typ, s.typ, s.typ)
}

// decodeFunction1 decodes rcp, sqrt, rsqrt, sin, cos, lg2, ex2 and tanh.
func decodeFunction1(d *decoder, in *ptx.Inst, m *modifiers) error {
	approx := m.has("approx")
	s := m.style()
	switch s.typ {
	case ptx.F32:
	case ptx.F64:
		if !slices.Contains([]string{"rcp", "sqrt", "rsqrt"}, in.Op) {
			return errType
		}
		if approx {
			return d.compute("", coarse(in.Op), in.Args, s.typ, s.typ)
		}
	case ptx.F16, ptx.F16x2, ptx.BF16, ptx.BF16x2:
		if in.Op != "ex2" && in.Op != "tanh" {
			return errType
		}
		if s.ftz && s.typ != ptx.F16 && s.typ != ptx.F16x2 {
			s.ftz = false
		}
	default:
		return errType
	}
	return d.compute(s.key(in.Op), s.apply(floatUnaryOp(in.Op, s)), in.Args, s.typ, s.typ)
}

// coarse is rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: only the upper half of
// operand and result counts, subnormals are flushed.
func coarse(op string) scalarFunc {
	f := floatFunctions[op]
	flush := func(a uint64) uint64 {
		if a&0x7ff0000000000000 == 0 {
			a &= 1 << 63
		}
		return a &^ 0xffffffff
	}
	return func(a, _, _ uint64) uint64 {
		r := f(toF64(flush(a)))
		return flush(bits64(r, a))
	}
}

// decodeCopysign decodes copysign: the magnitude of b with the sign of a.
func decodeCopysign(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if t != ptx.F32 && t != ptx.F64 {
		return errType
	}
	sign := formatOf(t).SignBit()
	f := func(a, b, _ uint64) uint64 { return a&sign | b&^sign }
	return d.compute("", f, in.Args, t, t, t)
}

// decodeTestp decodes testp, which classifies a number.
func decodeTestp(d *decoder, in *ptx.Inst, m *modifiers) error {
	class := m.oneOf("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := m.typ()
	if t != ptx.F32 && t != ptx.F64 || class == "" {
		return errType
	}
	fm := formatOf(t)
	inf, least := fm.Infinity(), uint64(1)<<(fm.Precision-1)
	f := func(a, _, _ uint64) uint64 {
		a &= fm.SignBit() - 1
		switch class {
		case "finite":
			return boolBit(a < inf)
		case "infinite":
			return boolBit(a == inf)
		case "number":
			return boolBit(a <= inf)
		case "notanumber":
			return boolBit(a > inf)
		case "normal":
			return boolBit((a >= least || a == 0) && a < inf)
		}
		return boolBit(a != 0 && a < least)
	}
	return d.compute("", f, in.Args, ptx.Pred, t)
}

// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// style takes the modifiers that floating-point operations share, the type
// included.
func (m *modifiers) style() scalar.Style {
	s := scalar.Style{Rounding: m.round(), FTZ: m.has("ftz"), Sat: m.has("sat"), NaN: m.has("NaN"),
		ReLU: m.has("relu")}
	s.Type = m.typ()
	return s
}

// floatKey names an operation of a style for the table of fast versions; styles
// without one have the key "".
func floatKey(s scalar.Style, op string) string {
	if s.Rounding != softfloat.Nearest || s.Sat || s.ReLU || s.NaN || s.FTZ && s.Type != ptx.F32 {
		return ""
	}
	if s.FTZ {
		return op + ".ftz.f32"
	}
	return op + "." + s.Type.String()
}

// floatBinary decodes add, sub, mul, min and max.
func (d *decoder) floatBinary(op string, in *ptx.Inst, m *modifiers) error {
	if m.has("xorsign") || m.has("abs") {
		return errType
	}
	s := m.style()
	if !s.Type.Float() {
		return errType
	}
	t := s.Type
	if len(in.Args) == 4 {
		return errOperands
	}
	return d.compute(floatKey(s, op), s.Apply(scalar.Float(op, s)), in.Args, t, t, t)
}

func (d *decoder) floatUnary(op string, in *ptx.Inst, m *modifiers) error {
	s := m.style()
	if !s.Type.Float() {
		return errType
	}
	return d.compute(floatKey(s, op), s.Apply(scalar.FloatUnary(op, s)), in.Args, s.Type, s.Type)
}

func decodeFma(d *decoder, in *ptx.Inst, m *modifiers) error {
	s := m.style()
	if !s.Type.Float() {
		return errType
	}
	return d.compute(floatKey(s, "fma"), s.Apply(scalar.FMA(s)), in.Args, s.Type, s.Type, s.Type,
		s.Type)
}

// floatDivide decodes div of floating-point types; the approximations are
// computed exactly.
func (d *decoder) floatDivide(in *ptx.Inst, m *modifiers) error {
	m.oneOf("approx", "full")
	s := m.style()
	if s.Type != ptx.F32 && s.Type != ptx.F64 {
		return errType
	}
	return d.compute(floatKey(s, "div"), s.Apply(scalar.Float("div", s)), in.Args, s.Type, s.Type,
		s.Type)
}

// decodeFunction1 decodes rcp, sqrt, rsqrt, sin, cos, lg2, ex2 and tanh.
func decodeFunction1(d *decoder, in *ptx.Inst, m *modifiers) error {
	approx := m.has("approx")
	s := m.style()
	switch s.Type {
	case ptx.F32:
	case ptx.F64:
		if !slices.Contains([]string{"rcp", "sqrt", "rsqrt"}, in.Op) {
			return errType
		}
		if approx {
			return d.compute("", scalar.Coarse(in.Op), in.Args, s.Type, s.Type)
		}
	case ptx.F16, ptx.F16x2, ptx.BF16, ptx.BF16x2:
		if in.Op != "ex2" && in.Op != "tanh" {
			return errType
		}
		if s.FTZ && s.Type != ptx.F16 && s.Type != ptx.F16x2 {
			s.FTZ = false
		}
	default:
		return errType
	}
	return d.compute(floatKey(s, in.Op), s.Apply(scalar.FloatUnary(in.Op, s)), in.Args, s.Type,
		s.Type)
}

// decodeCopysign decodes copysign: the magnitude of b with the sign of a.
func decodeCopysign(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if t != ptx.F32 && t != ptx.F64 {
		return errType
	}
	return d.compute("", scalar.CopySign(t), in.Args, t, t, t)
}

// decodeTestp decodes testp, which classifies a number.
func decodeTestp(d *decoder, in *ptx.Inst, m *modifiers) error {
	class := m.oneOf("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := m.typ()
	if t != ptx.F32 && t != ptx.F64 || class == "" {
		return errType
	}
	return d.compute("", scalar.Classify(t, class), in.Args, ptx.Pred, t)
}

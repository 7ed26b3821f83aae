// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

var errType = errors.New("type not supported")

// decodeArith decodes add, sub, min, max, and mul of all types.
func decodeArith(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.has("cc") {
		return d.decodeCarry(in, m, true)
	}
	if in.Op == "mul" {
		return decodeMul(d, in, m)
	}
	if t := peekType(m); t.Float() {
		return d.floatBinary(in.Op, in, m)
	}
	relu := (in.Op == "min" || in.Op == "max") && m.has("relu")
	sat := (in.Op == "add" || in.Op == "sub") && m.has("sat")
	t := m.typ()
	if packed := packedInteger(m, t); packed != ptx.NoType || relu {
		return errType
	}
	if !scalar.IsInteger(t, false) || sat && t != ptx.S32 {
		return errType
	}
	if sat {
		return d.compute("", scalar.Saturating(in.Op), in.Args, t, t, t)
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), scalar.Integer(in.Op, t), in.Args, t, t, t)
}

// packedInteger reports .u16x2 and the like, which are no types of package ptx.
func packedInteger(m *modifiers, t ptx.Type) ptx.Type {
	if m.oneOf("u16x2", "s16x2") != "" {
		return ptx.B32
	}
	return ptx.NoType
}

// peekType is the next type, left in place.
func peekType(m *modifiers) ptx.Type {
	for _, word := range m.words {
		if t := ptx.TypeOf(word); t != ptx.NoType {
			return t
		}
	}
	return ptx.NoType
}

// sizeKey names the type in the key of a fast version: where the sign doesn't
// matter, it is the unsigned one.
func sizeKey(op string, t ptx.Type) string {
	switch op {
	case "add", "sub", "mul.lo", "mad.lo", "neg", "mov", "and", "or", "xor", "not", "selp", "shl":
		switch t.Size() {
		case 2:
			return "u16"
		case 4:
			return "u32"
		case 8:
			return "u64"
		}
	}
	switch t {
	case ptx.B16:
		return "u16"
	case ptx.B32:
		return "u32"
	case ptx.B64:
		return "u64"
	}
	return t.String()
}

func decodeMul(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := peekType(m); t.Float() {
		return d.floatBinary("mul", in, m)
	}
	half := m.oneOf("lo", "hi", "wide")
	t := m.typ()
	if !scalar.IsInteger(t, false) || half == "" {
		return errType
	}
	dt := t
	if half == "wide" {
		if dt = scalar.WideType(t); dt == ptx.NoType {
			return errType
		}
	}
	op := "mul." + half
	return d.compute(op+"."+sizeKey(op, t), scalar.Integer(op, t), in.Args, dt, t, t)
}

// decodeMad decodes mad, which is fma for floating-point types.
func decodeMad(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := peekType(m); t.Float() {
		return decodeFma(d, in, m)
	}
	if m.has("cc") {
		return d.decodeCarry(in, m, true)
	}
	half := m.oneOf("lo", "hi", "wide")
	sat := m.has("sat")
	t := m.typ()
	if !scalar.IsInteger(t, false) || half == "" || sat && (half != "hi" || t != ptx.S32) {
		return errType
	}
	dt := t
	if half == "wide" {
		if dt = scalar.WideType(t); dt == ptx.NoType {
			return errType
		}
	}
	mul := scalar.Integer("mul."+half, t)
	if sat {
		return d.compute("", scalar.SaturatingAddTo(mul), in.Args, dt, t, t, dt)
	}
	op := "mad." + half
	return d.compute(op+"."+sizeKey(op, t), scalar.AddTo(mul), in.Args, dt, t, t, dt)
}

// decodeMul24 decodes mul24 and mad24.
func decodeMul24(d *decoder, in *ptx.Inst, m *modifiers) error {
	high := m.oneOf("lo", "hi") == "hi"
	sat := m.has("sat")
	t := m.typ()
	if t != ptx.U32 && t != ptx.S32 || sat {
		return errType
	}
	mul := scalar.Product24(t, high)
	if in.Op == "mul24" {
		return d.compute("", mul, in.Args, t, t, t)
	}
	return d.compute("", scalar.AddTo(mul), in.Args, t, t, t, t)
}

func decodeDivRem(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := peekType(m); t.Float() && in.Op == "div" {
		return d.floatDivide(in, m)
	}
	t := m.typ()
	if !scalar.IsInteger(t, false) {
		return errType
	}
	return d.compute(in.Op+"."+t.String(), scalar.Integer(in.Op, t), in.Args, t, t, t)
}

// decodeLogic decodes and, or, xor.
func decodeLogic(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if t == ptx.Pred && len(in.Args) == 3 {
		return d.predicates(lanes.PredLogic[in.Op], in.Args)
	}
	if t != ptx.B16 && t != ptx.B32 && t != ptx.B64 {
		return errType
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), scalar.Integer(in.Op, t), in.Args, t, t, t)
}

// predicates emits logic on predicates.
func (d *decoder) predicates(logic lanes.Func, args []ptx.Operand) error {
	var in Inst
	types := []ptx.Type{ptx.Pred, ptx.Pred}
	if len(args) < 2 || len(args) > 3 {
		return errOperands
	}
	if err := d.operands(&in, args, ptx.Pred, types[:len(args)-1]...); err != nil {
		return err
	}
	in.Compute = logic
	d.emit(in)
	return nil
}

// decodeIntUnary decodes not, neg, abs, popc, clz, brev, cnot.
func decodeIntUnary(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := peekType(m); t.Float() && (in.Op == "neg" || in.Op == "abs") {
		return d.floatUnary(in.Op, in, m)
	}
	t := m.typ()
	if t == ptx.Pred && in.Op == "not" && len(in.Args) == 2 {
		return d.predicates(lanes.PredNot, in.Args)
	}
	if !scalar.IsInteger(t, true) {
		return errType
	}
	dt := t
	if in.Op == "popc" || in.Op == "clz" {
		dt = ptx.U32
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), scalar.IntegerUnary(in.Op, t), in.Args, dt, t)
}

func decodeShift(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if !scalar.IsInteger(t, true) {
		return errType
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), scalar.Integer(in.Op, t), in.Args, t, t, ptx.U32)
}

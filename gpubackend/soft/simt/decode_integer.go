// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

var errType = errors.New("type not supported")

// isInteger tells whether t is an integer of 16, 32 or 64 bits; bits counts .bN.
func isInteger(t ptx.Type, bits bool) bool {
	switch t {
	case ptx.U16, ptx.S16, ptx.U32, ptx.S32, ptx.U64, ptx.S64:
		return true
	case ptx.B16, ptx.B32, ptx.B64:
		return bits
	}
	return false
}

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
	if !isInteger(t, false) || sat && t != ptx.S32 {
		return errType
	}
	if sat {
		return d.compute("", saturating(in.Op), in.Args, t, t, t)
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), integerBinary(in.Op, t), in.Args, t, t, t)
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

func saturating(op string) scalarFunc {
	if op == "add" {
		return func(a, b, _ uint64) uint64 { return saturate32(int64(int32(a)) + int64(int32(b))) }
	}
	return func(a, b, _ uint64) uint64 { return saturate32(int64(int32(a)) - int64(int32(b))) }
}

// wideType is the integer type of twice the size.
func wideType(t ptx.Type) ptx.Type {
	switch t {
	case ptx.U16:
		return ptx.U32
	case ptx.S16:
		return ptx.S32
	case ptx.U32:
		return ptx.U64
	case ptx.S32:
		return ptx.S64
	}
	return ptx.NoType
}

func decodeMul(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := peekType(m); t.Float() {
		return d.floatBinary("mul", in, m)
	}
	half := m.oneOf("lo", "hi", "wide")
	t := m.typ()
	if !isInteger(t, false) || half == "" {
		return errType
	}
	dt := t
	if half == "wide" {
		if dt = wideType(t); dt == ptx.NoType {
			return errType
		}
	}
	op := "mul." + half
	return d.compute(op+"."+sizeKey(op, t), integerBinary(op, t), in.Args, dt, t, t)
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
	if !isInteger(t, false) || half == "" || sat && (half != "hi" || t != ptx.S32) {
		return errType
	}
	dt := t
	if half == "wide" {
		if dt = wideType(t); dt == ptx.NoType {
			return errType
		}
	}
	mul := integerBinary("mul."+half, t)
	if sat {
		f := func(a, b,
			c uint64) uint64 {
			return saturate32(int64(mul(a, b, 0)) + int64(int32(c)))
		}
		return d.compute("", f, in.Args, dt, t, t, dt)
	}
	f := func(a, b, c uint64) uint64 { return mul(a, b, 0) + c }
	op := "mad." + half
	return d.compute(op+"."+sizeKey(op, t), f, in.Args, dt, t, t, dt)
}

// decodeMul24 decodes mul24 and mad24.
func decodeMul24(d *decoder, in *ptx.Inst, m *modifiers) error {
	high := m.oneOf("lo", "hi") == "hi"
	sat := m.has("sat")
	t := m.typ()
	if t != ptx.U32 && t != ptx.S32 || sat {
		return errType
	}
	mul := func(a, b uint64) uint64 {
		if t == ptx.S32 {
			a, b = uint64(int64(a<<40)>>40), uint64(int64(b<<40)>>40)
		} else {
			a, b = a&0xffffff, b&0xffffff
		}
		if high {
			return a * b >> 16
		}
		return a * b
	}
	if in.Op == "mul24" {
		return d.compute("", func(a, b, _ uint64) uint64 { return mul(a, b) }, in.Args, t, t, t)
	}
	return d.compute("", func(a, b, c uint64) uint64 { return mul(a, b) + c }, in.Args, t, t, t, t)
}

func decodeDivRem(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := peekType(m); t.Float() && in.Op == "div" {
		return d.floatDivide(in, m)
	}
	t := m.typ()
	if !isInteger(t, false) {
		return errType
	}
	return d.compute(in.Op+"."+t.String(), integerBinary(in.Op, t), in.Args, t, t, t)
}

// decodeLogic decodes and, or, xor.
func decodeLogic(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if t == ptx.Pred && len(in.Args) == 3 {
		return d.predicates(predLogic[in.Op], in.Args)
	}
	if t != ptx.B16 && t != ptx.B32 && t != ptx.B64 {
		return errType
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), integerBinary(in.Op, t), in.Args, t, t, t)
}

// predicates emits logic on predicates.
func (d *decoder) predicates(exec execFunc, args []ptx.Operand) error {
	var in inst
	types := []ptx.Type{ptx.Pred, ptx.Pred}
	if len(args) < 2 || len(args) > 3 {
		return errOperands
	}
	if err := d.operands(&in, args, ptx.Pred, types[:len(args)-1]...); err != nil {
		return err
	}
	in.exec = exec
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
		return d.predicates(execPredNot, in.Args)
	}
	if !isInteger(t, true) {
		return errType
	}
	dt := t
	if in.Op == "popc" || in.Op == "clz" {
		dt = ptx.U32
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), integerUnary(in.Op, t), in.Args, dt, t)
}

func decodeShift(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if !isInteger(t, true) {
		return errType
	}
	return d.compute(in.Op+"."+sizeKey(in.Op, t), integerBinary(in.Op, t), in.Args, t, t, ptx.U32)
}

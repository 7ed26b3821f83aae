// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"errors"
	"math"

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
		f := func(a, b, c uint64) uint64 { return saturate32(int64(mul(a, b, 0)) + int64(int32(c))) }
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

func decodeFunnel(d *decoder, in *ptx.Inst, m *modifiers) error {
	left := m.oneOf("l", "r") == "l"
	wrap := m.oneOf("wrap", "clamp") == "wrap"
	if m.typ() != ptx.B32 {
		return errType
	}
	return d.compute("", funnelShift(left, wrap), in.Args, ptx.B32, ptx.B32, ptx.B32, ptx.U32)
}

func decodeBfind(d *decoder, in *ptx.Inst, m *modifiers) error {
	shift := m.has("shiftamt")
	t := m.typ()
	if !isInteger(t, false) || t.Size() == 2 {
		return errType
	}
	return d.compute("", findBit(t, shift), in.Args, ptx.U32, t)
}

func decodeBfe(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if !isInteger(t, false) || t.Size() == 2 {
		return errType
	}
	return d.compute("", extractField(t), in.Args, t, t, ptx.U32, ptx.U32)
}

// decodeBfi decodes bfi, whose fourth operand goes through a mask first.
func decodeBfi(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if t != ptx.B32 && t != ptx.B64 || len(in.Args) != 5 {
		return errType
	}
	n := uint64(t.Size() * 8)
	// The position and length are packed into one register: position | length << 8.
	pack := ptx.Operand{Kind: ptx.Reg, Reg: d.temporary(ptx.B32)}
	packing := func(a, b, _ uint64) uint64 {
		pos, length := fieldOf(n, a, b)
		return pos | length<<8
	}
	if err := d.compute("", packing, []ptx.Operand{pack, in.Args[3], in.Args[4]}, ptx.B32, ptx.U32, ptx.U32); err != nil {
		return err
	}
	insert := func(a, b, c uint64) uint64 {
		pos, length := c&0xff, c>>8&0xff
		if pos >= n {
			return b
		}
		mask := (uint64(1)<<min(length, 63) - 1 | -boolBit(length >= 64)) << pos
		return b&^mask | a<<pos&mask
	}
	return d.compute("", insert, []ptx.Operand{in.Args[0], in.Args[1], in.Args[2], pack}, t, t, t, ptx.B32)
}

// temporary adds a register to the frame and returns its number.
func (d *decoder) temporary(t ptx.Type) int {
	d.regs = append(d.regs, d.newReg(regWidth(t)))
	d.tempTypes = append(d.tempTypes, t)
	return len(d.regs) - 1
}

func decodeSad(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if !isInteger(t, false) {
		return errType
	}
	f := func(a, b, c uint64) uint64 {
		a, b = widen(t, a), widen(t, b)
		if t.Signed() && int64(a) < int64(b) || !t.Signed() && a < b {
			return c + b - a
		}
		return c + a - b
	}
	return d.compute("", f, in.Args, t, t, t, t)
}

func decodePrmt(d *decoder, in *ptx.Inst, m *modifiers) error {
	f := scalarFunc(permute)
	if mode := m.oneOf("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"); mode != "" {
		selectors := permuteModes[mode]
		f = func(a, b, c uint64) uint64 { return permute(a, b, selectors[c&3]) }
	}
	if m.typ() != ptx.B32 {
		return errType
	}
	return d.compute("", f, in.Args, ptx.B32, ptx.B32, ptx.B32, ptx.B32)
}

func decodeLop3(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.typ() != ptx.B32 || len(in.Args) != 5 || in.Args[4].Kind != ptx.Int {
		return errOperands
	}
	return d.compute("", logic3(in.Args[4].Value), in.Args[:4], ptx.B32, ptx.B32, ptx.B32, ptx.B32)
}

func decodeDp(d *decoder, in *ptx.Inst, m *modifiers) error {
	high := in.Op == "dp2a" && m.oneOf("lo", "hi") == "hi"
	ta, tb := m.typ(), m.typ()
	if ta.Size() != 4 || tb.Size() != 4 || ta.Float() || tb.Float() {
		return errType
	}
	f := dotProduct4(ta, tb)
	if in.Op == "dp2a" {
		f = dotProduct2(ta, tb, high)
	}
	return d.compute("", f, in.Args, ptx.B32, ptx.B32, ptx.B32, ptx.B32)
}

// decodeSzext decodes szext: sign- or zero-extension from bit n on.
func decodeSzext(d *decoder, in *ptx.Inst, m *modifiers) error {
	wrap := m.oneOf("wrap", "clamp") == "wrap"
	t := m.typ()
	if t != ptx.U32 && t != ptx.S32 {
		return errType
	}
	f := func(a, b, _ uint64) uint64 {
		n := b & math.MaxUint32
		if wrap {
			n &= 31
		}
		switch {
		case n >= 32:
			return a
		case n == 0:
			return 0
		case t == ptx.S32:
			return uint64(int64(a<<(64-n)) >> (64 - n))
		}
		return a & (1<<n - 1)
	}
	return d.compute("", f, in.Args, t, t, ptx.U32)
}

// decodeFns decodes fns: the position of the n-th set bit from a base.
func decodeFns(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.typ() != ptx.B32 {
		return errType
	}
	f := func(mask, base, offset uint64) uint64 {
		step, left := 1, int32(offset)
		if left < 0 {
			step, left = -1, -left
		}
		if left == 0 {
			if base < 32 && mask>>base&1 != 0 {
				return base
			}
			return 0xffffffff
		}
		for at := int(base); at >= 0 && at < 32; at += step {
			if mask>>at&1 == 0 {
				continue
			}
			if left--; left == 0 {
				return uint64(at)
			}
		}
		return 0xffffffff
	}
	return d.compute("", f, in.Args, ptx.B32, ptx.B32, ptx.B32, ptx.S32)
}

// decodeBmsk decodes bmsk: a mask of b bits from position a.
func decodeBmsk(d *decoder, in *ptx.Inst, m *modifiers) error {
	wrap := m.oneOf("wrap", "clamp") == "wrap"
	if m.typ() != ptx.B32 {
		return errType
	}
	f := func(a, b, _ uint64) uint64 {
		a, b = a&0xffffffff, b&0xffffffff
		if wrap {
			a, b = a&31, b&31
		} else {
			a, b = min(a, 32), min(b, 32)
		}
		return (1<<b - 1) << a
	}
	return d.compute("", f, in.Args, ptx.B32, ptx.B32, ptx.B32)
}

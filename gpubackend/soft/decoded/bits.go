// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

func decodeFunnel(d *decoder, in *ptx.Inst, m *modifiers) error {
	left := m.oneOf("l", "r") == "l"
	wrap := m.oneOf("wrap", "clamp") == "wrap"
	if m.typ() != ptx.B32 {
		return errType
	}
	return d.compute("", scalar.FunnelShift(left, wrap), in.Args, ptx.B32, ptx.B32, ptx.B32,
		ptx.U32)
}

func decodeBfind(d *decoder, in *ptx.Inst, m *modifiers) error {
	shift := m.has("shiftamt")
	t := m.typ()
	if !scalar.IsInteger(t, false) || t.Size() == 2 {
		return errType
	}
	return d.compute("", scalar.FindBit(t, shift), in.Args, ptx.U32, t)
}

func decodeBfe(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if !scalar.IsInteger(t, false) || t.Size() == 2 {
		return errType
	}
	return d.compute("", scalar.ExtractField(t), in.Args, t, t, ptx.U32, ptx.U32)
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
	if err := d.compute("", scalar.PackField(n), []ptx.Operand{pack, in.Args[3], in.Args[4]},
		ptx.B32, ptx.U32, ptx.U32); err != nil {
		return err
	}
	return d.compute("", scalar.InsertField(n),
		[]ptx.Operand{in.Args[0], in.Args[1], in.Args[2], pack}, t, t, t, ptx.B32)
}

// temporary adds a register to the frame and returns its number.
func (d *decoder) temporary(t ptx.Type) int {
	d.prog.take(registerBytes)
	d.regs = append(d.regs, d.newReg(regWidth(t)))
	d.tempTypes = append(d.tempTypes, t)
	return len(d.regs) - 1
}

func decodeSad(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if !scalar.IsInteger(t, false) {
		return errType
	}
	return d.compute("", scalar.AbsoluteDifference(t), in.Args, t, t, t, t)
}

func decodePrmt(d *decoder, in *ptx.Inst, m *modifiers) error {
	f := scalar.Func(scalar.Permute)
	if mode := m.oneOf("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"); mode != "" {
		selectors := scalar.PermuteModes[mode]
		f = func(a, b, c uint64) uint64 { return scalar.Permute(a, b, selectors[c&3]) }
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
	return d.compute("", scalar.Logic3(in.Args[4].Value), in.Args[:4], ptx.B32, ptx.B32, ptx.B32,
		ptx.B32)
}

func decodeDp(d *decoder, in *ptx.Inst, m *modifiers) error {
	high := in.Op == "dp2a" && m.oneOf("lo", "hi") == "hi"
	ta, tb := m.typ(), m.typ()
	if ta.Size() != 4 || tb.Size() != 4 || ta.Float() || tb.Float() {
		return errType
	}
	f := scalar.DotProduct4(ta, tb)
	if in.Op == "dp2a" {
		f = scalar.DotProduct2(ta, tb, high)
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
	return d.compute("", scalar.ExtendFrom(t, wrap), in.Args, t, t, ptx.U32)
}

// decodeFns decodes fns: the position of the n-th set bit from a base.
func decodeFns(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.typ() != ptx.B32 {
		return errType
	}
	return d.compute("", scalar.NthSetBit, in.Args, ptx.B32, ptx.B32, ptx.B32, ptx.S32)
}

// decodeBmsk decodes bmsk: a mask of b bits from position a.
func decodeBmsk(d *decoder, in *ptx.Inst, m *modifiers) error {
	wrap := m.oneOf("wrap", "clamp") == "wrap"
	if m.typ() != ptx.B32 {
		return errType
	}
	return d.compute("", scalar.BitMask(wrap), in.Args, ptx.B32, ptx.B32, ptx.B32)
}

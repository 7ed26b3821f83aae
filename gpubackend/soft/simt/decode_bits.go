// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

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
	if err := d.compute("", packing, []ptx.Operand{pack, in.Args[3], in.Args[4]}, ptx.B32, ptx.U32,
		ptx.U32); err != nil {
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
	return d.compute("", insert, []ptx.Operand{in.Args[0], in.Args[1], in.Args[2], pack}, t, t, t,
		ptx.B32)
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

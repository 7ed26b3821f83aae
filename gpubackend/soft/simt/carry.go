// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// carryOp describes an instruction of extended precision: what is added or
// subtracted, and which way the carry goes.
type carryOp struct {
	// mul is the product for mad and madc, nil for add and sub.
	mul      scalar.Func
	sub      bool
	in, out  bool
	bits     uint
	register uint32
}

// decodeCarry decodes add.cc, addc, sub.cc, subc, mad.cc and madc.
func (d *decoder) decodeCarry(in *ptx.Inst, m *modifiers, out bool) error {
	out = out || m.has("cc")
	op := carryOp{sub: in.Op == "sub" || in.Op == "subc", out: out, register: d.carry,
		in: in.Op == "addc" || in.Op == "subc" || in.Op == "madc"}
	mad := in.Op == "mad" || in.Op == "madc"
	half := ""
	if mad {
		half = m.oneOf("lo", "hi")
	}
	t := m.typ()
	if t.Size() < 4 || !scalar.IsInteger(t, true) || mad && half == "" {
		return errType
	}
	op.bits = uint(t.Size() * 8)
	var decoded inst
	var err error
	if mad {
		op.mul = scalar.Integer("mul."+half, t)
		err = d.operands(&decoded, in.Args, t, t, t, t)
	} else {
		err = d.operands(&decoded, in.Args, t, t, t)
	}
	decoded.exec = execCarry
	decoded.more = d.more(instMore{carry: op})
	d.emit(decoded)
	return err
}

// decodeCarryIn decodes addc, subc and madc, where .cc is optional.
func decodeCarryIn(d *decoder, in *ptx.Inst, m *modifiers) error {
	return d.decodeCarry(in, m, false)
}

func execCarry(w *warp, in *inst, m uint32) {
	op := &in.more.carry
	var a, b, c, r [lanes]uint64
	w.load(in.a, in.aw, &a)
	w.load(in.b, in.bw, &b)
	if op.mul != nil {
		w.load(in.c, in.cw, &c)
	}
	flags := w.pred(op.register)
	var carries uint32
	for i := range a {
		x, y := a[i], b[i]
		if op.mul != nil {
			x, y = op.mul(x, y, 0), c[i]
		}
		carry := uint64(0)
		if op.in {
			carry = uint64(*flags >> i & 1)
		}
		var over uint64
		if r[i], over = op.step(x, y, carry); over != 0 {
			carries |= 1 << i
		}
	}
	if op.out {
		setPred(flags, m, carries)
	}
	w.store(in.d, in.dw, &r, m)
}

// step adds or subtracts with carry or borrow.
func (op *carryOp) step(x, y, carry uint64) (sum, over uint64) {
	if op.bits == 32 {
		x, y = x&0xffffffff, y&0xffffffff
		if op.sub {
			sum = x - y - carry
		} else {
			sum = x + y + carry
		}
		return sum, sum >> 32 & 1
	}
	if op.sub {
		return bits.Sub64(x, y, carry)
	}
	return bits.Add64(x, y, carry)
}

// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// decodeCarry decodes add.cc, addc, sub.cc, subc, mad.cc and madc.
func (d *decoder) decodeCarry(in *ptx.Inst, m *modifiers, out bool) error {
	out = out || m.has("cc")
	op := lanes.Carry{Sub: in.Op == "sub" || in.Op == "subc", Out: out, Register: d.carry,
		In: in.Op == "addc" || in.Op == "subc" || in.Op == "madc"}
	mad := in.Op == "mad" || in.Op == "madc"
	half := ""
	if mad {
		half = m.oneOf("lo", "hi")
	}
	t := m.typ()
	if t.Size() < 4 || !scalar.IsInteger(t, true) || mad && half == "" {
		return errType
	}
	op.Bits = uint(t.Size() * 8)
	var decoded Inst
	var err error
	if mad {
		op.Mul = scalar.Integer("mul."+half, t)
		err = d.operands(&decoded, in.Args, t, t, t, t)
	} else {
		err = d.operands(&decoded, in.Args, t, t, t)
	}
	decoded.Compute = op.Func()
	d.prog.take(moreBytes)
	d.emit(decoded)
	return err
}

// decodeCarryIn decodes addc, subc and madc, where .cc is optional.
func decodeCarryIn(d *decoder, in *ptx.Inst, m *modifiers) error {
	return d.decodeCarry(in, m, false)
}

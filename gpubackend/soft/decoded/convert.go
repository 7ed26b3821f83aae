// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// decodeCvt decodes cvt, the packing form for halves included.
func decodeCvt(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.has("pack") {
		return decodeCvtPack(d, in, m)
	}
	c := scalar.Conversion{FTZ: m.has("ftz"), Sat: m.has("sat"), ReLU: m.has("relu"),
		SatFinite: m.has("satfinite")}
	switch m.oneOf("rni", "rzi", "rmi", "rpi") {
	case "rni":
		c.Integral = true
	case "rzi":
		c.Integral, c.Rounding = true, softfloat.Zero
	case "rmi":
		c.Integral, c.Rounding = true, softfloat.Down
	case "rpi":
		c.Integral, c.Rounding = true, softfloat.Up
	default:
		c.Rounding = m.round()
	}
	c.To, c.From = m.typ(), m.typ()
	if c.To == ptx.F16x2 || c.To == ptx.BF16x2 {
		return d.cvtPair(in, c)
	}
	if !convertible(c.To) || !convertible(c.From) ||
		c.From.Float() && !c.To.Float() && !c.Integral {
		return errType
	}
	key := ""
	if !c.Sat && !c.ReLU && !c.SatFinite && !c.FTZ && c.Rounding == softfloat.Nearest &&
		!c.Integral {
		key = "cvt." + c.To.String() + "." + c.From.String()
	} else if c.Integral && !c.FTZ && !c.Sat && !c.ReLU {
		key = "cvt." + [...]string{"rni", "rzi", "rmi",
			"rpi"}[c.Rounding] + "." + c.To.String() + "." + c.From.String()
	}
	return d.compute(key, c.Func(), in.Args, c.To, c.From)
}

func convertible(t ptx.Type) bool {
	switch t {
	case ptx.NoType, ptx.Pred, ptx.B8, ptx.B16, ptx.B32, ptx.B64, ptx.B128, ptx.F16x2, ptx.BF16x2:
		return false
	}
	return true
}

// cvtPair converts two float32 to the halves of a register, the first operand
// to the upper one.
func (d *decoder) cvtPair(in *ptx.Inst, c scalar.Conversion) error {
	if c.From != ptx.F32 || c.Integral {
		return errType
	}
	c.To = scalar.ElementOf(c.To)
	return d.compute("", c.Pair(), in.Args, ptx.B32, ptx.F32, ptx.F32)
}

// decodeCvtPack decodes cvt.pack.sat for 8- and 16-bit elements.
func decodeCvtPack(d *decoder, in *ptx.Inst, m *modifiers) error {
	sat := m.has("sat")
	ct, from, third := m.typ(), m.typ(), m.typ()
	if !sat || from != ptx.S32 || ct.Size() > 2 || ct.Size() == 2 && third != ptx.NoType {
		return errType
	}
	f := scalar.PackSaturated(ct, third != ptx.NoType)
	if third == ptx.NoType {
		return d.compute("", f, in.Args, ptx.B32, ptx.S32, ptx.S32)
	}
	return d.compute("", f, in.Args, ptx.B32, ptx.S32, ptx.S32, ptx.B32)
}

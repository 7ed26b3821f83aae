// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// conversion is a decoded cvt.
type conversion struct {
	to, from ptx.Type
	mode     softfloat.Rounding
	// integral rounds to an integer, in mode.
	integral       bool
	ftz, sat, relu bool
	satFinite      bool
}

// scalar makes the conversion's scalar function, nil if there is none.
func (c conversion) scalar() scalarFunc {
	switch {
	case !c.from.Float() && !c.to.Float():
		return c.intToInt()
	case !c.from.Float():
		return c.intToFloat()
	case !c.to.Float():
		return c.floatToInt()
	}
	return c.floatToFloat()
}

func (c conversion) intToInt() scalarFunc {
	if !c.sat {
		// Narrowing then widening leaves the value as the narrower type has it.
		return func(a, _, _ uint64) uint64 { return widen(c.to, widen(c.from, a)) }
	}
	least, greatest := integerBounds(c.to)
	return func(a, _, _ uint64) uint64 {
		a = widen(c.from, a)
		if c.from.Signed() && int64(a) < 0 {
			return uint64(max(int64(a), least))
		}
		return min(a, greatest)
	}
}

func (c conversion) intToFloat() scalarFunc {
	fm := formatOf(c.to)
	f := func(a, _, _ uint64) uint64 {
		a = widen(c.from, a)
		if c.from.Signed() && int64(a) < 0 {
			return fm.Round(true, -a, 0, false, c.mode)
		}
		return fm.Round(false, a, 0, false, c.mode)
	}
	if c.sat {
		return saturating01(f, fm)
	}
	return f
}

// value gives the function that decodes the source.
func (c conversion) value() func(uint64) float64 {
	switch {
	case c.from == ptx.F64:
		return toF64
	case c.from == ptx.F32 && c.ftz:
		return func(a uint64) float64 { return float64(toF32(flush32(a))) }
	case c.from == ptx.F32:
		return func(a uint64) float64 { return float64(toF32(a)) }
	}
	return formatOf(c.from).Value
}

// floatToInt clamps to the range of the integer type. NaN becomes 0, or only the
// uppermost bit where 64-bit types take part.
func (c conversion) floatToInt() scalarFunc {
	value, round := c.value(), integralRounding(c.mode)
	least, greatest := integerBounds(c.to)
	below, above := float64(least), math.Ldexp(1, c.to.Size()*8)
	if c.to.Signed() {
		above /= 2
	}
	nan := uint64(0)
	if c.from == ptx.F64 || c.to.Size() == 8 {
		nan = widen(c.to, 1<<(c.to.Size()*8-1))
	}
	return func(a, _, _ uint64) uint64 {
		x := round(value(a))
		switch {
		case x != x:
			return nan
		case x <= below:
			return uint64(least)
		case x >= above:
			return greatest
		case c.to.Signed():
			return uint64(int64(x))
		}
		return uint64(x)
	}
}

func integralRounding(mode softfloat.Rounding) func(float64) float64 {
	switch mode {
	case softfloat.Zero:
		return math.Trunc
	case softfloat.Down:
		return math.Floor
	case softfloat.Up:
		return math.Ceil
	}
	return math.RoundToEven
}

func (c conversion) floatToFloat() scalarFunc {
	value, fm := c.value(), formatOf(c.to)
	from := formatOf(c.from)
	round := func(x float64) float64 { return x }
	if c.integral {
		round = integralRounding(c.mode)
	}
	mode := c.mode
	if c.integral {
		mode = softfloat.Nearest
	}
	f := func(a, _, _ uint64) uint64 {
		x := round(value(a))
		switch {
		case x == x:
			return fm.Encode(x, mode)
		case c.from == c.to && !c.integral:
			return a & (from.SignBit()<<1 - 1)
		case c.from == ptx.F64 || c.to == ptx.F64 && !c.ftz:
			return carryNaN(fm, from, a)
		case c.to == ptx.F64:
			return carryNaN(fm, &softfloat.Single, nan32)
		case c.from == ptx.BF16:
			return a << 16
		}
		return fm.NaN()
	}
	if c.ftz && c.to == ptx.F32 {
		plain := f
		f = func(a, b, _ uint64) uint64 { return flush32(plain(a, b, 0)) }
	}
	switch {
	case c.sat:
		return saturating01(f, fm)
	case c.relu:
		return clampingBelow(f, fm)
	case c.satFinite:
		plain := f
		return func(a, b, _ uint64) uint64 {
			r := plain(a, b, 0)
			if r&(fm.SignBit()-1) == fm.Infinity() {
				r--
			}
			return r
		}
	}
	return f
}

// carryNaN converts a NaN with as much of its payload as fits.
func carryNaN(to, from *softfloat.Format, a uint64) uint64 {
	payload := a & (1<<(from.Precision-1) - 1)
	if to.Precision >= from.Precision {
		payload <<= to.Precision - from.Precision
	} else {
		payload >>= from.Precision - to.Precision
	}
	r := to.Infinity() | payload | 1<<(to.Precision-2)
	if a&from.SignBit() != 0 {
		r |= to.SignBit()
	}
	return r
}

// decodeCvt decodes cvt, the packing form for halves included.
func decodeCvt(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.has("pack") {
		return decodeCvtPack(d, in, m)
	}
	c := conversion{ftz: m.has("ftz"), sat: m.has("sat"), relu: m.has("relu"),
		satFinite: m.has("satfinite")}
	switch m.oneOf("rni", "rzi", "rmi", "rpi") {
	case "rni":
		c.integral = true
	case "rzi":
		c.integral, c.mode = true, softfloat.Zero
	case "rmi":
		c.integral, c.mode = true, softfloat.Down
	case "rpi":
		c.integral, c.mode = true, softfloat.Up
	default:
		c.mode = m.round()
	}
	c.to, c.from = m.typ(), m.typ()
	if c.to == ptx.F16x2 || c.to == ptx.BF16x2 {
		return d.cvtPair(in, c)
	}
	if !convertible(c.to) || !convertible(c.from) ||
		c.from.Float() && !c.to.Float() && !c.integral {
		return errType
	}
	key := ""
	if !c.sat && !c.relu && !c.satFinite && !c.ftz && c.mode == softfloat.Nearest && !c.integral {
		key = "cvt." + c.to.String() + "." + c.from.String()
	} else if c.integral && !c.ftz && !c.sat && !c.relu {
		key = "cvt." + [...]string{"rni", "rzi", "rmi",
			"rpi"}[c.mode] + "." + c.to.String() + "." + c.from.String()
	}
	return d.compute(key, c.scalar(), in.Args, c.to, c.from)
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
func (d *decoder) cvtPair(in *ptx.Inst, c conversion) error {
	if c.from != ptx.F32 || c.integral {
		return errType
	}
	c.to = elementOf(c.to)
	f := c.scalar()
	g := func(a, b, _ uint64) uint64 { return f(a, 0, 0)<<16 | f(b, 0, 0)&0xffff }
	return d.compute("", g, in.Args, ptx.B32, ptx.F32, ptx.F32)
}

// decodeCvtPack decodes cvt.pack.sat for 8- and 16-bit elements.
func decodeCvtPack(d *decoder, in *ptx.Inst, m *modifiers) error {
	sat := m.has("sat")
	ct, from, third := m.typ(), m.typ(), m.typ()
	if !sat || from != ptx.S32 || ct.Size() > 2 || ct.Size() == 2 && third != ptx.NoType {
		return errType
	}
	n := uint(ct.Size() * 8)
	clamp := conversion{to: ct, from: ptx.S32, sat: true}.intToInt()
	mask := uint64(1)<<n - 1
	two := func(a, b, _ uint64) uint64 { return clamp(a, 0, 0)&mask<<n | clamp(b, 0, 0)&mask }
	if third == ptx.NoType {
		return d.compute("", two, in.Args, ptx.B32, ptx.S32, ptx.S32)
	}
	three := func(a, b, c uint64) uint64 { return two(a, b, 0) | c<<(2*n) }
	return d.compute("", three, in.Args, ptx.B32, ptx.S32, ptx.S32, ptx.B32)
}

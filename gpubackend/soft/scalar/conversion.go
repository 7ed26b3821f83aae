// SPDX-License-Identifier: Apache-2.0

package scalar

import (
	"math"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// Conversion is a decoded cvt.
type Conversion struct {
	To, From ptx.Type
	Rounding softfloat.Rounding
	// Integral rounds to an integer, in mode.
	Integral       bool
	FTZ, Sat, ReLU bool
	SatFinite      bool
}

// Func is the function that converts, nil if there is none.
func (c Conversion) Func() Func {
	switch {
	case !c.From.Float() && !c.To.Float():
		return c.intToInt()
	case !c.From.Float():
		return c.intToFloat()
	case !c.To.Float():
		return c.floatToInt()
	}
	return c.floatToFloat()
}

func (c Conversion) intToInt() Func {
	if !c.Sat {
		// Narrowing then widening leaves the value as the narrower type has it.
		return func(a, _, _ uint64) uint64 { return Widen(c.To, Widen(c.From, a)) }
	}
	least, greatest := integerBounds(c.To)
	return func(a, _, _ uint64) uint64 {
		a = Widen(c.From, a)
		if c.From.Signed() && int64(a) < 0 {
			return uint64(max(int64(a), least))
		}
		return min(a, greatest)
	}
}

func (c Conversion) intToFloat() Func {
	fm := FormatOf(c.To)
	f := func(a, _, _ uint64) uint64 {
		a = Widen(c.From, a)
		if c.From.Signed() && int64(a) < 0 {
			return fm.Round(true, -a, 0, false, c.Rounding)
		}
		return fm.Round(false, a, 0, false, c.Rounding)
	}
	if c.Sat {
		return saturating01(f, fm)
	}
	return f
}

// value gives the function that decodes the source.
func (c Conversion) value() func(uint64) float64 {
	switch {
	case c.From == ptx.F64:
		return ToF64
	case c.From == ptx.F32 && c.FTZ:
		return func(a uint64) float64 { return float64(toF32(Flush32(a))) }
	case c.From == ptx.F32:
		return func(a uint64) float64 { return float64(toF32(a)) }
	}
	return FormatOf(c.From).Value
}

// floatToInt clamps to the range of the integer type. NaN becomes 0, or only the
// uppermost bit where 64-bit types take part.
func (c Conversion) floatToInt() Func {
	value, round := c.value(), integralRounding(c.Rounding)
	least, greatest := integerBounds(c.To)
	below, above := float64(least), math.Ldexp(1, c.To.Size()*8)
	if c.To.Signed() {
		above /= 2
	}
	nan := uint64(0)
	if c.From == ptx.F64 || c.To.Size() == 8 {
		nan = Widen(c.To, 1<<(c.To.Size()*8-1))
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
		case c.To.Signed():
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

func (c Conversion) floatToFloat() Func {
	value, fm := c.value(), FormatOf(c.To)
	from := FormatOf(c.From)
	round := func(x float64) float64 { return x }
	if c.Integral {
		round = integralRounding(c.Rounding)
	}
	mode := c.Rounding
	if c.Integral {
		mode = softfloat.Nearest
	}
	f := func(a, _, _ uint64) uint64 {
		x := round(value(a))
		switch {
		case x == x:
			return fm.Encode(x, mode)
		case c.From == c.To && !c.Integral:
			return a & (from.SignBit()<<1 - 1)
		case c.From == ptx.F64 || c.To == ptx.F64 && !c.FTZ:
			return carryNaN(fm, from, a)
		case c.To == ptx.F64:
			return carryNaN(fm, &softfloat.Single, NaN32)
		case c.From == ptx.BF16:
			return a << 16
		}
		return fm.NaN()
	}
	if c.FTZ && c.To == ptx.F32 {
		plain := f
		f = func(a, b, _ uint64) uint64 { return Flush32(plain(a, b, 0)) }
	}
	switch {
	case c.Sat:
		return saturating01(f, fm)
	case c.ReLU:
		return clampingBelow(f, fm)
	case c.SatFinite:
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

// Pair converts a and b to the halves of a word, a to the upper one.
func (c Conversion) Pair() Func {
	f := c.Func()
	return func(a, b, _ uint64) uint64 { return f(a, 0, 0)<<16 | f(b, 0, 0)&0xffff }
}

// PackSaturated is cvt.pack: a and b, clamped to t, next to each other, and behind them c if it
// takes part.
func PackSaturated(t ptx.Type, third bool) Func {
	n := uint(t.Size() * 8)
	clamp := Conversion{To: t, From: ptx.S32, Sat: true}.intToInt()
	mask := uint64(1)<<n - 1
	two := func(a, b, _ uint64) uint64 { return clamp(a, 0, 0)&mask<<n | clamp(b, 0, 0)&mask }
	if !third {
		return two
	}
	return func(a, b, c uint64) uint64 { return two(a, b, 0) | c<<(2*n) }
}

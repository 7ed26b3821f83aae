// SPDX-License-Identifier: Apache-2.0

package scalar

import (
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// A Style is how a floating-point operation treats its operands and result.
type Style struct {
	Type     ptx.Type
	Rounding softfloat.Rounding
	FTZ      bool // subnormal numbers count as 0
	Sat      bool // the result is clamped to [0, 1]
	ReLU     bool // negative results are 0
	NaN      bool // min and max give a NaN if there is one
}

// Apply wraps f, which computes on one element, with what the style asks for.
func (s Style) Apply(f Func) Func {
	if f == nil {
		return nil
	}
	switch {
	case s.FTZ && s.Type == ptx.F32:
		f = flushing(f)
	case s.FTZ && s.Type == ptx.F16:
		f = flushing16(f)
	case s.FTZ && s.Type == ptx.F16x2:
		f = flushing16(f)
	}
	if s.Sat {
		f = saturating01(f, FormatOf(s.Type))
	}
	if s.ReLU {
		f = clampingBelow(f, FormatOf(s.Type))
	}
	if s.Type == ptx.F16x2 || s.Type == ptx.BF16x2 {
		f = Packed(f)
	}
	return f
}

func flushing(f Func) Func {
	return func(a, b, c uint64) uint64 { return Flush32(f(Flush32(a), Flush32(b), Flush32(c))) }
}

func flushing16(f Func) Func {
	flush := func(a uint64) uint64 {
		if a&0x7c00 == 0 {
			return a & 0x8000
		}
		return a
	}
	return func(a, b, c uint64) uint64 { return flush(f(flush(a), flush(b), flush(c))) }
}

// saturating01 clamps a result to [0, 1]; NaN becomes 0.
func saturating01(f Func, fm *softfloat.Format) Func {
	one := fm.Encode(1, softfloat.Nearest)
	return func(a, b, c uint64) uint64 {
		r := f(a, b, c)
		if r > fm.Infinity() {
			return 0
		}
		return min(r, one)
	}
}

// clampingBelow makes negative results 0 and keeps NaN.
func clampingBelow(f Func, fm *softfloat.Format) Func {
	return func(a, b, c uint64) uint64 {
		r := f(a, b, c)
		if r&(fm.SignBit()-1) > fm.Infinity() {
			return fm.NaN()
		}
		if r&fm.SignBit() != 0 {
			return 0
		}
		return r
	}
}

// Packed applies f to both halves of 32-bit operands.
func Packed(f Func) Func {
	return func(a, b, c uint64) uint64 {
		lo := f(a&0xffff, b&0xffff, c&0xffff) & 0xffff
		return lo | f(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
	}
}

// SPDX-License-Identifier: Apache-2.0

package scalar

import (
	"math"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

func f32(x float32) uint64 { return uint64(math.Float32bits(x)) }

// truncated is what a register of n bits keeps of a result.
func truncated(x uint64, n int) uint64 { return x & (^uint64(0) >> (64 - n)) }

func TestFunctions(t *testing.T) {
	t.Parallel()
	single, double := Style{Type: ptx.F32}, Style{Type: ptx.F64}
	flush, clamp := single, single
	flush.FTZ, clamp.Sat = true, true
	up := single
	up.Rounding = softfloat.Up
	for _, c := range []struct {
		name    string
		f       Func
		a, b, c uint64
		bits    int
		want    uint64
	}{
		{"add wraps", Integer("add", ptx.U32), 0xffffffff, 2, 0, 32, 1},
		{"high half, signed", Integer("mul.hi", ptx.S32), 0xffffffff, 1, 0, 32, 0xffffffff},
		{"high half, unsigned", Integer("mul.hi", ptx.U64), 1 << 63, 2, 0, 64, 1},
		{"division by zero", Integer("div", ptx.U32), 7, 0, 0, 32, 0xffffffff},
		{"least by -1", Integer("div", ptx.S32), 1 << 31, 0xffffffff, 0, 32, 1 << 31},
		{"remainder of zero", Integer("rem", ptx.S64), 7, 0, 0, 64, 7},
		{"shift by too much", Integer("shl", ptx.B32), 1, 99, 0, 32, 0},
		{"arithmetic shift by too much", Integer("shr", ptx.S16), 0x8000, 99, 0, 16, 0xffff},
		{"signed minimum", Integer("min", ptx.S16), 0xffff, 1, 0, 16, 0xffff},
		{"unsigned minimum", Integer("min", ptx.U16), 0xffff, 1, 0, 16, 1},
		{"absolute value", IntegerUnary("abs", ptx.S32), 0xfffffffb, 0, 0, 32, 5},
		{"leading zeros", IntegerUnary("clz", ptx.B32), 1, 0, 0, 32, 31},
		{"saturating sum", Saturating("add"), 0x7fffffff, 1, 0, 32, 0x7fffffff},
		{"24 bits", Product24(ptx.S32, false), 0xffffff, 3, 0, 32, 0xfffffffd},
		{"difference", AbsoluteDifference(ptx.S32), 0xffffffff, 1, 10, 32, 12},
		{"bit field", ExtractField(ptx.S32), 0xf0, 4, 4, 32, 0xffffffff},
		{"field inserted", InsertField(32), 0x5, 0xffffffff, PackField(32)(8, 4, 0), 32,
			0xfffff5ff},
		{"permutation", Permute, 0x33221100, 0x77665544, 0x0246, 32, 0x00224466},
		{"sign of a byte", Permute, 0x80, 0, 0x8888, 32, 0xffffffff},
		{"truth table", Logic3(0x96), 0b1100, 0b1010, 0b1111, 4, 0b1001},
		{"funnel shift", FunnelShift(true, false), 0x80000000, 1, 1, 32, 3},
		{"dot product", DotProduct4(ptx.S32, ptx.U32), 0xffffffff, 0x01010101, 10, 32, 6},
		{"first set bit", NthSetBit, 0b1010, 0, 1, 32, 1},
		{"second set bit downwards", NthSetBit, 0b1010, 31, uint64(0xfffffffe), 32, 1},
		{"mask", BitMask(false), 4, 8, 0, 32, 0xff0},
		{"extension", ExtendFrom(ptx.S32, false), 0x80, 8, 0, 32, 0xffffff80},

		{"sum", Float("add", single), f32(1.5), f32(2), 0, 32, f32(3.5)},
		{"NaN of single precision", Float("sub", single), f32(float32(math.Inf(1))),
			f32(float32(math.Inf(1))), 0, 32, NaN32},
		{"a NaN is handed on", Float("add", double), 0x7ff8000000000abc, 1, 0, 64,
			0x7ff8000000000abc},
		{"rounded up", Float("add", up), f32(1), f32(0x1p-30), 0, 32, f32(1) + 1},
		{"flushed", flush.Apply(Float("mul", flush)), 1, f32(1), 0, 32, 0},
		{"clamped", clamp.Apply(Float("add", clamp)), f32(3), f32(4), 0, 32, f32(1)},
		{"minimum of zeros", Float("min", single), 0, 1 << 31, 0, 32, 1 << 31},
		{"maximum with a NaN", Float("max", single), NaN32, f32(2), 0, 32, f32(2)},
		{"one rounding", FMA(single), f32(1 + 0x1p-23), f32(1 + 0x1p-23), f32(-1 - 0x1p-22), 32,
			f32(0x1p-46)},
		{"square root", FloatUnary("sqrt", double), math.Float64bits(9), 0, 0, 64,
			math.Float64bits(3)},
		{"sign of a", CopySign(ptx.F32), 1 << 31, f32(2), 0, 32, f32(-2)},
		{"subnormal", Classify(ptx.F32, "subnormal"), 1, 0, 0, 1, 1},
		{"not a number", Classify(ptx.F64, "notanumber"), NaN64, 0, 0, 1, 1},

		{"to an integer", Conversion{To: ptx.S32, From: ptx.F32, Integral: true,
			Rounding: softfloat.Zero}.Func(), f32(-1.9), 0, 0, 32, 0xffffffff},
		{"too large for it", Conversion{To: ptx.S32, From: ptx.F32, Integral: true}.Func(),
			f32(1e20), 0, 0, 32, 0x7fffffff},
		{"NaN to an integer", Conversion{To: ptx.S32, From: ptx.F32, Integral: true}.Func(),
			NaN32, 0, 0, 32, 0},
		{"to a half", Conversion{To: ptx.F16, From: ptx.F32}.Func(), f32(1), 0, 0, 16, 0x3c00},
		{"two halves", Conversion{To: ptx.F16, From: ptx.F32}.Pair(), f32(1), f32(-2), 0, 32,
			0x3c00c000},
		{"packed bytes", PackSaturated(ptx.S8, false), 300, uint64(0xffffff00), 0, 16, 0x7f80},

		{"signed order", Compare("lt", ptx.S32, false), 0xffffffff, 0, 0, 1, 1},
		{"unsigned order", Compare("lo", ptx.S32, false), 0xffffffff, 0, 0, 1, 0},
		{"unordered", Compare("neu", ptx.F32, false), NaN32, f32(1), 0, 1, 1},
		{"ordered", Compare("ne", ptx.F32, false), NaN32, f32(1), 0, 1, 0},
		{"selection", SelectIf, 3, 4, 0, 32, 4},
		{"by a negative number", SelectBySign(ptx.F32, false), 3, 4, f32(-1), 32, 4},

		{"elements of a word", Video("vadd", 8, [3]ptx.Type{ptx.U32, ptx.U32, ptx.U32}, true,
			false), 0xff010203, 0x01010101, 0, 32, 0xff020304},
		{"their sum", Video("vabsdiff", 16, [3]ptx.Type{ptx.U32, ptx.U32, ptx.U32}, false,
			true), 0x00050001, 0x00020003, 10, 32, 15},

		{"counter wraps", Update("inc", ptx.U32), 5, 5, 0, 32, 0},
		{"compare and swap", Update("cas", ptx.B32), 5, 5, 9, 32, 9},
		{"another value stays", Update("cas", ptx.B32), 4, 5, 9, 32, 4},
	} {
		if c.f == nil {
			t.Errorf("%s: no function", c.name)
		} else if got := truncated(c.f(c.a, c.b, c.c), c.bits); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

// TestNoFunction: what an instruction doesn't have has no function.
func TestNoFunction(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Func{
		"integer": Integer("fma", ptx.U32), "unary": IntegerUnary("sin", ptx.U32),
		"float": FloatUnary("cnot", Style{Type: ptx.F32}), "comparison": Compare("??", ptx.F32,
			false),
		"video": Video("vmad", 8, [3]ptx.Type{}, false, false), "update": Update("inc", ptx.S32),
		"styled": Style{Type: ptx.F32, Sat: true}.Apply(nil),
	} {
		if f != nil {
			t.Errorf("%s: a function", name)
		}
	}
}

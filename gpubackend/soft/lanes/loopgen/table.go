// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"
)

// canon32 makes NaN results in single precision those of a GPU; in double
// precision the processor's are right.
const (
	canon32 = "; VCMPPS $3, Y0, Y0, Y3; VMOVDQU nan32<>(SB), Y4; VBLENDVPS Y3, Y4, Y0, Y0"
)

// unsigned32 makes floats of unsigned words. Their halves become the mantissas of two floats, of
// 2^39 and of 2^23. These powers are subtracted before the sum, which is rounded once.
const unsigned32 = "VPSRLD $16, Y0, Y3; VPOR two39<>(SB), Y3, Y3; " +
	"VPAND low16<>(SB), Y0, Y4; VPOR two23<>(SB), Y4, Y4; " +
	"VSUBPS two39and23<>(SB), Y3, Y3; VADDPS Y4, Y3, Y0"

// multiply64 is Y0 * Y1 of 64 bits, made of products of 32.
const multiply64 = "VPSRLQ $32, Y0, Y3; VPMULUDQ Y1, Y3, Y3; VPSRLQ $32, Y1, Y4; " +
	"VPMULUDQ Y0, Y4, Y4; VPADDQ Y3, Y4, Y3; VPSLLQ $32, Y3, Y3; " +
	"VPMULUDQ Y1, Y0, Y0; VPADDQ Y3, Y0, Y0"

// table lists all operations.
func table() []op {
	ops := integers32()
	ops = append(ops, integers64()...)
	ops = append(ops, shared()...)
	ops = append(ops, floats("f32", "PS", canon32)...)
	ops = append(ops, floats("f64", "PD", "")...)
	ops = append(ops, flushing()...)
	ops = append(ops, conversions()...)
	return append(ops, comparisons()...)
}

func integers32() []op {
	u, s := []string{"u32", "u32", "u32"}, []string{"s32", "s32", "s32"}
	return []op{
		{key: "add.u32", types: u, expr: "x + y", asm: "VPADDD Y1, Y0, Y0"},
		{key: "sub.u32", types: u, expr: "x - y", asm: "VPSUBD Y1, Y0, Y0"},
		{key: "mul.lo.u32", types: u, expr: "x * y", asm: "VPMULLD Y1, Y0, Y0"},
		{key: "mad.lo.u32", types: append(u, "u32"), expr: "x*y + z",
			asm: "VPMULLD Y1, Y0, Y0; VPADDD Y2, Y0, Y0"},
		{key: "mul.hi.u32", types: u, expr: "uint32(uint64(x) * uint64(y) >> 32)"},
		{key: "mul.hi.s32", types: s, expr: "int32(int64(x) * int64(y) >> 32)"},
		{key: "mul.wide.u32", types: []string{"u64", "u32", "u32"}, expr: "uint64(x) * uint64(y)",
			asm: "VPMULUDQ Y1, Y0, Y0"},
		{key: "mul.wide.s32", types: []string{"s64", "s32", "s32"}, expr: "int64(x) * int64(y)",
			asm: "VPMULDQ Y1, Y0, Y0"},
		{key: "mad.wide.u32", types: []string{"u64", "u32", "u32", "u64"},
			expr: "uint64(x)*uint64(y) + z",
			asm:  "VPMULUDQ Y1, Y0, Y0; VPADDQ Y2, Y0, Y0"},
		{key: "mad.wide.s32", types: []string{"s64", "s32", "s32", "s64"},
			expr: "int64(x)*int64(y) + z",
			asm:  "VPMULDQ Y1, Y0, Y0; VPADDQ Y2, Y0, Y0"},
		{key: "min.u32", types: u, expr: "min(x, y)", asm: "VPMINUD Y1, Y0, Y0"},
		{key: "max.u32", types: u, expr: "max(x, y)", asm: "VPMAXUD Y1, Y0, Y0"},
		{key: "min.s32", types: s, expr: "min(x, y)", asm: "VPMINSD Y1, Y0, Y0"},
		{key: "max.s32", types: s, expr: "max(x, y)", asm: "VPMAXSD Y1, Y0, Y0"},
		{key: "abs.s32", types: s[:2], expr: "max(x, -x)", asm: "VPABSD Y0, Y0"},
		{key: "shl.u32", types: u, expr: "x << y", asm: "VPSLLVD Y1, Y0, Y0"},
		{key: "shr.u32", types: u, expr: "x >> y", asm: "VPSRLVD Y1, Y0, Y0"},
		{key: "shr.s32", types: []string{"s32", "s32", "u32"}, expr: "x >> y",
			asm: "VPSRAVD Y1, Y0, Y0"},
		{key: "neg.u32", types: u[:2], expr: "-x", asm: "VPXOR Y3, Y3, Y3; VPSUBD Y0, Y3, Y0"},
		{key: "div.u32", types: u, expr: "divU32(x, y)"},
		{key: "rem.u32", types: u, expr: "remU32(x, y)"},
		{key: "div.s32", types: s, expr: "divS32(x, y)"},
		{key: "rem.s32", types: s, expr: "remS32(x, y)"},
		{key: "popc.u32", types: u[:2], expr: "uint32(bits.OnesCount32(x))"},
		{key: "clz.u32", types: u[:2], expr: "uint32(bits.LeadingZeros32(x))"},
	}
}

func integers64() []op {
	u, s := []string{"u64", "u64", "u64"}, []string{"s64", "s64", "s64"}
	return []op{
		{key: "add.u64", types: u, expr: "x + y", asm: "VPADDQ Y1, Y0, Y0"},
		{key: "sub.u64", types: u, expr: "x - y", asm: "VPSUBQ Y1, Y0, Y0"},
		{key: "mul.lo.u64", types: u, expr: "x * y", asm: multiply64},
		{key: "mad.lo.u64", types: append(u, "u64"), expr: "x*y + z",
			asm: multiply64 + "; VPADDQ Y2, Y0, Y0"},
		{key: "min.u64", types: u, expr: "min(x, y)"},
		{key: "max.u64", types: u, expr: "max(x, y)"},
		{key: "min.s64", types: s, expr: "min(x, y)"},
		{key: "max.s64", types: s, expr: "max(x, y)"},
		{key: "shl.u64", types: []string{"u64", "u64", "u32"}, expr: "x << y",
			asm: "VPSLLVQ Y1, Y0, Y0"},
		{key: "shr.u64", types: []string{"u64", "u64", "u32"}, expr: "x >> y",
			asm: "VPSRLVQ Y1, Y0, Y0"},
		{key: "shr.s64", types: []string{"s64", "s64", "u32"}, expr: "x >> y"},
		{key: "neg.u64", types: u[:2], expr: "-x", asm: "VPXOR Y3, Y3, Y3; VPSUBQ Y0, Y3, Y0"},
	}
}

// shared are the operations that look the same for both sizes.
func shared() []op {
	var ops []op
	for _, t := range []string{"u32", "u64"} {
		three := []string{t, t, t}
		ops = append(ops,
			op{key: "and." + t, types: three, expr: "x & y", asm: "VPAND Y1, Y0, Y0"},
			op{key: "or." + t, types: three, expr: "x | y", asm: "VPOR Y1, Y0, Y0"},
			op{key: "xor." + t, types: three, expr: "x ^ y", asm: "VPXOR Y1, Y0, Y0"},
			op{key: "not." + t, types: three[:2], expr: "^x", asm: "VPXOR ones<>(SB), Y0, Y0"},
			op{key: "mov." + t, types: three[:2], expr: "x", asm: "VMOVDQA Y0, Y0"},
			op{key: "selp." + t, types: []string{t, t, t, "p"}, expr: "selectOf(z, x, y)",
				asm: "VPBLENDVB Y2, Y0, Y1, Y0"},
		)
	}
	u16 := []string{"u16", "u16", "u16"}
	return append(ops,
		op{key: "mov.u16", types: u16[:2], expr: "x"},
		op{key: "add.u16", types: u16, expr: "x + y"},
		op{key: "sub.u16", types: u16, expr: "x - y"},
		op{key: "mul.lo.u16", types: u16, expr: "x * y"},
		op{key: "and.u16", types: u16, expr: "x & y"},
		op{key: "or.u16", types: u16, expr: "x | y"},
		op{key: "xor.u16", types: u16, expr: "x ^ y"},
	)
}

// floats are the operations on t, whose vector instructions end in suffix.
func floats(t, suffix, canon string) []op {
	size := t[1:]
	three := []string{t, t, t}
	replace := func(s string) string {
		return strings.NewReplacer("PS", suffix, "32<", size+"<").Replace(s) + canon
	}
	sign := func(s string) string { return strings.ReplaceAll(s, "32<", size+"<") }
	// The instructions for min and max give the second operand for NaN and zeros.
	order := func(instruction, join string) string {
		text := instruction + " Y1, Y0, Y5; " + instruction + " Y0, Y1, Y6; " + join +
			" Y6, Y5, Y5; " +
			"VCMPPS $3, Y1, Y1, Y6; VBLENDVPS Y6, Y0, Y5, Y5; VCMPPS $3, Y0, Y0, Y6; " +
			"VBLENDVPS Y6, Y1, Y5, Y0"
		text = sign(strings.NewReplacer("PS", suffix).Replace(text))
		return text + sign(strings.NewReplacer("PS", suffix).Replace(canon32))
	}
	// In double precision the sign of a NaN stays.
	negate := "VPXOR sign32<>(SB), Y0, Y0" + canon
	if t == "f64" {
		negate = "VPXOR sign64<>(SB), Y0, Y1; VCMPPD $3, Y0, Y0, Y3; VBLENDVPD Y3, Y0, Y1, Y0"
	}
	fma := "fmaLane64(x, y, z)"
	sqrt, rcp := "math.Sqrt(x)", "1 / x"
	if t == "f32" {
		fma = "scalar.FMA32(x, y, z)"
		sqrt = "float32(math.Sqrt(float64(x)))"
	}
	wrap := func(expr string, operands string) string {
		if t == "f32" {
			return "canon32(" + expr + ")"
		}
		return "carry64(" + expr + ", " + operands + ")"
	}
	return []op{
		{key: "add." + t, types: three, expr: wrap("x + y", "x, y"),
			asm: replace("VADDPS Y1, Y0, Y0")},
		{key: "sub." + t, types: three, expr: wrap("x - y", "x, y"),
			asm: replace("VSUBPS Y1, Y0, Y0")},
		{key: "mul." + t, types: three, expr: wrap("x * y", "x, y"),
			asm: replace("VMULPS Y1, Y0, Y0")},
		{key: "fma." + t, types: append(three, t), expr: wrap(fma, "x, y, z"),
			asm: replace("VFMADD213PS Y2, Y1, Y0")},
		{key: "div." + t, types: three, expr: wrap("x / y", "x, y"),
			asm: replace("VDIVPS Y1, Y0, Y0")},
		{key: "sqrt." + t, types: three[:2], expr: wrap(sqrt, "x"), asm: replace("VSQRTPS Y0, Y0")},
		{key: "rcp." + t, types: three[:2], expr: wrap(rcp, "x"),
			asm: replace("VMOVDQU one32<>(SB), Y1; VDIVPS Y0, Y1, Y0")},
		{key: "min." + t, types: three, expr: "min" + size + "(x, y)",
			asm: order("VMINPS", "VORPS")},
		{key: "max." + t, types: three, expr: "max" + size + "(x, y)",
			asm: order("VMAXPS", "VANDPS")},
		{key: "neg." + t, types: three[:2], expr: "neg" + size + "(x)", asm: sign(negate)},
		{key: "abs." + t, types: three[:2], expr: "abs" + size + "(x)",
			asm: sign("VMOVDQU sign32<>(SB), Y1; VPANDN Y0, Y1, Y0") + canon},
	}
}

// flush replaces subnormal numbers in register y by zeros of their sign.
func flush(y string) string {
	return "VPXOR Y6, Y6, Y6; VPAND exponent32<>(SB), " + y + ", Y5; VPCMPEQD Y6, Y5, Y5; " +
		"VPAND nan32<>(SB), Y5, Y5; VPANDN " + y + ", Y5, " + y + "; "
}

// flushing are the operations with .ftz.
func flushing() []op {
	three := []string{"f32", "f32", "f32"}
	two := flush("Y0") + flush("Y1")
	end := canon32 + "; " + flush("Y0")
	sum := func(expr string) string { return "flushF32(canon32(" + expr + "))" }
	return []op{
		{key: "add.ftz.f32", types: three, expr: sum("flushF32(x) + flushF32(y)"),
			asm: two + "VADDPS Y1, Y0, Y0" + end},
		{key: "sub.ftz.f32", types: three, expr: sum("flushF32(x) - flushF32(y)"),
			asm: two + "VSUBPS Y1, Y0, Y0" + end},
		{key: "mul.ftz.f32", types: three, expr: sum("flushF32(x) * flushF32(y)"),
			asm: two + "VMULPS Y1, Y0, Y0" + end},
		{key: "fma.ftz.f32", types: append(three, "f32"),
			expr: sum("scalar.FMA32(flushF32(x), flushF32(y), flushF32(z))"),
			asm:  two + flush("Y2") + "VFMADD213PS Y2, Y1, Y0" + end},
		{key: "div.ftz.f32", types: three, expr: sum("flushF32(x) / flushF32(y)"),
			asm: two + "VDIVPS Y1, Y0, Y0" + end},
		{key: "rcp.ftz.f32", types: three[:2], expr: sum("1 / flushF32(x)"),
			asm: flush("Y0") + "VMOVDQU one32<>(SB), Y1; VDIVPS Y0, Y1, Y0" + end},
		{key: "sqrt.ftz.f32", types: three[:2],
			expr: sum("float32(math.Sqrt(float64(flushF32(x))))"),
			asm:  flush("Y0") + "VSQRTPS Y0, Y0" + end},
	}
}

func conversions() []op {
	pack := "VEXTRACTI128 $1, Y0, X1; VSHUFPS $0x88, X1, X0, X0"
	var ops []op
	for i, mode := range []string{"rni", "rmi", "rpi", "rzi"} {
		function := []string{"math.RoundToEven", "math.Floor", "math.Ceil", "math.Trunc"}[i]
		ops = append(ops,
			op{key: "cvt." + mode + ".f32.f32", types: []string{"f32", "f32"},
				expr: "canon32(float32(" + function + "(float64(x))))",
				asm:  "VROUNDPS $" + strconv.Itoa(8+i) + ", Y0, Y0" + canon32},
			op{key: "cvt." + mode + ".s32.f32", types: []string{"s32", "f32"},
				expr: "truncS32(float32(" + function + "(float64(x))))",
				asm:  "VROUNDPS $" + strconv.Itoa(8+i) + ", Y0, Y0; " + truncate},
		)
	}
	return append(ops, []op{
		{key: "cvt.u64.u32", types: []string{"u64", "u32"}, expr: "uint64(x)",
			asm: "VMOVDQA Y0, Y0"},
		{key: "cvt.s64.s32", types: []string{"s64", "s32"}, expr: "int64(x)",
			asm: "VMOVDQA Y0, Y0"},
		{key: "cvt.s64.u32", types: []string{"u64", "u32"}, expr: "uint64(x)",
			asm: "VMOVDQA Y0, Y0"},
		{key: "cvt.u64.s32", types: []string{"s64", "s32"}, expr: "int64(x)",
			asm: "VMOVDQA Y0, Y0"},
		{key: "cvt.u32.u64", types: []string{"u32", "u64"}, expr: "uint32(x)", asm: pack},
		{key: "cvt.u32.s64", types: []string{"u32", "u64"}, expr: "uint32(x)", asm: pack},
		{key: "cvt.s32.s64", types: []string{"u32", "u64"}, expr: "uint32(x)", asm: pack},
		{key: "cvt.s32.u64", types: []string{"u32", "u64"}, expr: "uint32(x)", asm: pack},
		{key: "cvt.f32.s32", types: []string{"f32", "s32"}, expr: "float32(x)",
			asm: "VCVTDQ2PS Y0, Y0"},
		{key: "cvt.f32.u32", types: []string{"f32", "u32"}, expr: "float32(x)", asm: unsigned32},
		{key: "cvt.f32.s64", types: []string{"f32", "s64"}, expr: "float32(x)"},
		{key: "cvt.f64.s32", types: []string{"f64", "s32"}, expr: "float64(x)",
			asm: "VMOVDQA Y0, Y0", load: "VCVTDQ2PD"},
		{key: "cvt.f64.u32", types: []string{"f64", "u32"}, expr: "float64(x)"},
		{key: "cvt.f64.s64", types: []string{"f64", "s64"}, expr: "float64(x)"},
		{key: "cvt.f64.f32", types: []string{"f64", "f32"}, expr: "float64(x)",
			asm: "VMOVDQA Y0, Y0", load: "VCVTPS2PD"},
		{key: "cvt.f32.f64", types: []string{"f32", "f64"}, expr: "float32(x)",
			asm: "VCVTPD2PSY Y0, X0"},
	}...)
}

// truncate converts to signed integers, clamped; NaN becomes 0.
const truncate = "VCVTTPS2DQ Y0, Y1; VMOVDQU two31<>(SB), Y2; VCMPPS $0x1d, Y2, Y0, Y3; " +
	"VPXOR Y3, Y1, Y1; VCMPPS $3, Y0, Y0, Y3; VPANDN Y1, Y3, Y0"

func comparisons() []op {
	var ops []op
	add := func(name, t, expr, asm string) {
		ops = append(ops,
			op{key: "setp." + name + "." + t, types: []string{"p", t, t}, expr: expr, asm: asm})
	}
	names := []string{"eq", "ne", "lt", "le", "gt", "ge"}
	signs := []string{"==", "!=", "<", "<=", ">", ">="}
	for _, t := range []string{"u32", "s32", "u64", "s64"} {
		letter := map[string]string{"32": "D", "64": "Q"}[t[1:]]
		for i, name := range names {
			if t[0] == 's' && i < 2 {
				continue // whether numbers are equal, their sign doesn't change
			}
			add(name, t, "x "+signs[i]+" y", compareIntegers(name, t, letter))
		}
	}
	predicates := map[string]string{"eq": "0", "ne": "0xc", "lt": "0x11", "le": "0x12",
		"gt": "0x1e", "ge": "0x1d",
		"equ": "8", "neu": "4", "ltu": "0x19", "leu": "0x1a", "gtu": "0x16", "geu": "0x15",
		"num": "7", "nan": "3"}
	exprs := map[string]string{"eq": "x == y", "ne": "x < y || x > y", "lt": "x < y",
		"le": "x <= y", "gt": "x > y", "ge": "x >= y",
		"equ": "!(x < y || x > y)", "neu": "x != y", "ltu": "!(x >= y)", "leu": "!(x > y)",
		"gtu": "!(x <= y)", "geu": "!(x < y)",
		"num": "x == x && y == y", "nan": "x != x || y != y"}
	for _, t := range []string{"f32", "f64"} {
		suffix := map[string]string{"f32": "PS", "f64": "PD"}[t]
		for _, name := range append(names, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan") {
			add(name, t, exprs[name], "VCMP"+suffix+" $"+predicates[name]+", Y1, Y0, Y0")
		}
	}
	return ops
}

// compareIntegers compares with equality and signed greater-than, the only
// comparisons there are.
func compareIntegers(name, t, letter string) string {
	prefix := ""
	if t[0] == 'u' && name != "eq" && name != "ne" {
		sign := "sign" + t[1:] + "<>(SB)"
		prefix = "VPXOR " + sign + ", Y0, Y0; VPXOR " + sign + ", Y1, Y1; "
	}
	invert := "; VPXOR ones<>(SB), Y0, Y0"
	switch name {
	case "eq":
		return "VPCMPEQ" + letter + " Y1, Y0, Y0"
	case "ne":
		return "VPCMPEQ" + letter + " Y1, Y0, Y0" + invert
	case "gt":
		return prefix + "VPCMPGT" + letter + " Y1, Y0, Y0"
	case "le":
		return prefix + "VPCMPGT" + letter + " Y1, Y0, Y0" + invert
	case "lt":
		return prefix + "VPCMPGT" + letter + " Y0, Y1, Y0"
	}
	return prefix + "VPCMPGT" + letter + " Y0, Y1, Y0" + invert
}

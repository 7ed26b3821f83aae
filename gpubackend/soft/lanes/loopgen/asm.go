// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// sizes are the bytes of a lane.
var sizes = map[string]int{"u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8, "f64": 8}

func assembly(ops []op) string {
	var b bytes.Buffer
	b.WriteString(header + "#include \"go_asm.h\"\n#include \"textflag.h\"\n\n")
	for i := range 32 {
		fmt.Fprintf(&b, "DATA laneBits32<>+%d(SB)/4, $%#x\n", i*4, uint32(1)<<i)
	}
	b.WriteString("GLOBL laneBits32<>(SB), RODATA|NOPTR, $128\n")
	for i := range 32 {
		fmt.Fprintf(&b, "DATA laneBits64<>+%d(SB)/8, $%#x\n", i*8, uint64(1)<<i)
	}
	b.WriteString("GLOBL laneBits64<>(SB), RODATA|NOPTR, $256\n")
	for i, c := range constants {
		for k := range 4 {
			fmt.Fprintf(&b, "DATA %s<>+%d(SB)/8, $%#x\n", c.name, k*8, c.value)
		}
		fmt.Fprintf(&b, "GLOBL %s<>(SB), RODATA|NOPTR, $32\n", constants[i].name)
	}
	for _, o := range ops {
		if o.asm != "" {
			asmLoop(&b, o)
		}
	}
	return b.String()
}

// constants fill a vector each.
var constants = []struct {
	name  string
	value uint64
}{
	{"sign32", 0x8000000080000000},
	{"sign64", 0x8000000000000000},
	{"nan32", 0x7fffffff7fffffff},
	{"nan64", 0x7ff8000000000000},
	{"ones", 0xffffffffffffffff},
	{"one32", 0x3f8000003f800000},
	{"one64", 0x3ff0000000000000},
	{"exponent32", 0x7f8000007f800000},
	{"two31", 0x4f0000004f000000},
	{"low16", 0x0000ffff0000ffff},
	{"two23", 0x4b0000004b000000},
	{"two39", 0x5300000053000000},
	{"two39and23", 0x5300008053000080},
}

// asmLoop writes the function for one operation: eight or four lanes at a time,
// all of them computed, and those outside the mask left as they were.
func asmLoop(b *bytes.Buffer, o op) {
	step := 8
	for _, t := range o.types {
		if sizes[t] == 8 {
			step = 4
		}
	}
	fmt.Fprintf(b, "\nTEXT ·avx%s(SB), NOSPLIT, $0-20\n", o.name())
	b.WriteString("\tMOVQ r_start+0(FP), DX\n\tMOVQ o+8(FP), BX\n\tMOVL m+16(FP), CX\n")
	for i, reg := range []string{"DI", "SI", "R8", "R9"}[:len(o.types)] {
		fmt.Fprintf(b, "\tMOVL Operands_%s(BX), %s\n\tADDQ DX, %s\n", []string{"D", "A", "B",
			"C"}[i],
			reg, reg)
	}
	for i, t := range o.types[1:] {
		if t == "p" {
			// The predicate's bits, in all elements of Y12.
			fmt.Fprintf(b, "\tVPBROADCASTD (%s), Y12\n", []string{"SI", "R8", "R9"}[i])
			if step == 4 {
				b.WriteString("\tVPMOVZXDQ X12, Y12\n")
			}
		}
	}
	if o.types[0] == "p" {
		compareLoop(b, o, step)
		return
	}
	b.WriteString("\tCMPL CX, $-1\n\tJNE partial\n")
	for at := 0; at < 32; at += step {
		vector(b, o, step, at, false)
	}
	b.WriteString("\tVZEROUPPER\n\tRET\npartial:\n\tVMOVD CX, X15\n\tVPBROADCASTD X15, Y15\n")
	if step == 4 && sizes[o.types[0]] == 8 {
		b.WriteString("\tVPMOVZXDQ X15, Y15\n")
	}
	for at := 0; at < 32; at += step {
		vector(b, o, step, at, true)
	}
	b.WriteString("\tVZEROUPPER\n\tRET\n")
}

// compareLoop collects the sign bits of the results in R10.
func compareLoop(b *bytes.Buffer, o op, step int) {
	b.WriteString("\tXORL R10, R10\n")
	mask := map[int]string{8: "VMOVMSKPS", 4: "VMOVMSKPD"}[step]
	for at := 0; at < 32; at += step {
		loads(b, o, step, at)
		lines(b, o.asm, step, at)
		fmt.Fprintf(b, "\t%s Y0, R11\n\tSHLL $%d, R11\n\tORL R11, R10\n", mask, at)
	}
	b.WriteString("\tMOVL (DI), R11\n\tXORL R11, R10\n\tANDL CX, R10\n\tXORL R11, R10\n" +
		"\tMOVL R10, (DI)\n\tVZEROUPPER\n\tRET\n")
}

// vector writes the computation of the lanes from at on.
func vector(b *bytes.Buffer, o op, step, at int, partial bool) {
	loads(b, o, step, at)
	lines(b, o.asm, step, at)
	size := sizes[o.types[0]]
	y := "Y"
	if size*step == 16 {
		y = "X"
	}
	if partial {
		bitsOf := fmt.Sprintf("laneBits%d<>+%d(SB)", size*8, at*size)
		equal := map[int]string{4: "VPCMPEQD", 8: "VPCMPEQQ"}[size]
		fmt.Fprintf(b, "\tVMOVDQU %s, %s14\n\tVPAND %s15, %s14, %s13\n\t%s %s14, %s13, %s13\n",
			bitsOf, y, y, y, y, equal, y, y, y)
		fmt.Fprintf(b, "\tVMOVDQU %d(DI), %s14\n\tVPBLENDVB %s13, %s0, %s14, %s0\n", at*size, y, y,
			y, y, y)
	}
	fmt.Fprintf(b, "\tVMOVDQU %s0, %d(DI)\n", y, at*size)
}

// loads reads the sources into Y0, Y1 and Y2.
func loads(b *bytes.Buffer, o op, step, at int) {
	for i, t := range o.types[1:] {
		from := fmt.Sprintf("%d(%s)", at*sizes[t], []string{"SI", "R8", "R9"}[i])
		switch {
		case t == "p":
			size := map[int]int{8: 4, 4: 8}[step]
			equal := map[int]string{4: "VPCMPEQD", 8: "VPCMPEQQ"}[size]
			fmt.Fprintf(b,
				"\tVMOVDQU laneBits%d<>+%d(SB), Y11\n\tVPAND Y11, Y12, Y%d\n\t%s Y11, Y%d, Y%d\n",
				size*8, at*size, i, equal, i, i)
		case o.load != "":
			fmt.Fprintf(b, "\t%s %s, Y%d\n", o.load, from, i)
		case sizes[t]*step == 32:
			fmt.Fprintf(b, "\tVMOVDQU %s, Y%d\n", from, i)
		case t == "s32":
			fmt.Fprintf(b, "\tVPMOVSXDQ %s, Y%d\n", from, i)
		case t == "u32":
			fmt.Fprintf(b, "\tVPMOVZXDQ %s, Y%d\n", from, i)
		default:
			panic("no way to load " + t + " for " + o.key)
		}
	}
}

func lines(b *bytes.Buffer, asm string, _, _ int) {
	for _, line := range strings.Split(asm, ";") {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString("\t" + line + "\n")
		}
	}
}

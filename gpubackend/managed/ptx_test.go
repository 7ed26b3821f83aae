// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/vm"
)

const ptxHead = ".version 8.0\n.target sm_75\n.address_size 64\n"

// counted are the declarations that the tables below begin with: two variables, the second with
// initial content.
const counted = ".global .attribute(.managed) .align 8 .b8 a[16];\n" +
	".visible .global .attribute(.managed) .u32 ab = 5;\n"

// placed are they after the rewriting.
const placed = "\n.visible .global  .u32 managed0_i1 = 5;\n"

// kernel is a function with a body.
func kernel(body string) string {
	return ".visible .entry k(.param .u64 p)\n{" + body + "\n\tret;\n}\n"
}

const regs = "\n\t.reg .b64 %rd<4>;\n\t.reg .b32 %r<4>;\n\t.reg .pred %p<2>;"

// loads is the beginning of a body that uses so many addresses.
func loads(addresses ...string) string {
	s := " .reg .b64 %managed0_<" + string(rune('0'+len(addresses))) + ">;"
	for i, a := range addresses {
		s += " mov.u64 %managed0_" + string(rune('0'+i)) + ", " + a + ";"
	}
	return s
}

const addressA, addressAB = "0x7f1234560000", "0x7f1234560010"

var rewritten = []struct{ name, text, want string }{
	{"no use", kernel(regs), kernel(regs)},
	{"load", kernel(regs + "ld.global.u32 %r1, [a];"),
		kernel(loads(addressA) + regs + "ld.global.u32 %r1, [%managed0_0];")},
	{"prefix of a name", kernel(regs + "st.global.u32 [ab], %r1;"),
		kernel(loads(addressAB) + regs + "st.global.u32 [%managed0_0], %r1;")},
	{
		"sums between brackets",
		kernel(regs +
			"ld.global.u32 %r1, [a+4]; ld.global.u32 %r2, [ a + -8 ]; ld.global.u32 %r3, [ab];"),
		kernel(loads(addressA, addressAB) + regs +
			"ld.global.u32 %r1, [%managed0_0+4]; ld.global.u32 %r2, [ %managed0_0 + -8 ]; " +
			"ld.global.u32 %r3, [%managed0_1];"),
	},
	{
		"addresses",
		kernel(regs +
			"mov.u64 %rd1, a; mov.u64 %rd2, a+12; mov.u64 %rd3, ab - 4; cvta.global.u64 %rd1, a;"),
		kernel(loads(addressA, "0x7f123456000c", "0x7f123456000c") + regs +
			"mov.u64 %rd1, %managed0_0; mov.u64 %rd2, %managed0_1; mov.u64 %rd3, %managed0_2; " +
			"cvta.global.u64 %rd1, %managed0_0;"),
	},
	{
		"operands of all kinds",
		kernel(regs +
			"setp.eq.s64 %p1, %rd1, a; @!%p1 st.global.u64 [a+8], ab; " +
			"@%p1 atom.global.add.u32 %r1, [ab], 1; mov.b64 {%r1, %r2}, a;"),
		kernel(loads(addressA,
			addressAB) + regs + "setp.eq.s64 %p1, %rd1, %managed0_0; " +
			"@!%p1 st.global.u64 [%managed0_0+8], %managed0_1; " +
			"@%p1 atom.global.add.u32 %r1, [%managed0_1], 1; mov.b64 {%r1, %r2}, %managed0_0;"),
	},
	{
		"comments, debug lines, labels, inner blocks",
		kernel(regs +
			"\n// ld [a];\n/* a */ .loc 1 2 3\nL1: { .reg .u32 a1; ld.global.u32 a1, [a]; }\n" +
			"@%p1 bra L1;"),
		kernel(loads(addressA) + regs +
			"\n// ld [a];\n/* a */ .loc 1 2 3\n" +
			"L1: { .reg .u32 a1; ld.global.u32 a1, [%managed0_0]; }\n@%p1 bra L1;"),
	},
	{
		"two functions",
		".func f()\n{ .reg .b64 %rd<2>; mov.u64 %rd1, ab; ret; }\n" +
			kernel(regs+"call.uni f, ();\n mov.u64 %rd1, a;"),
		".func f()\n{" + loads(addressAB) +
			" .reg .b64 %rd<2>; mov.u64 %rd1, %managed0_0; ret; }\n" +
			kernel(loads(addressA)+regs+"call.uni f, ();\n mov.u64 %rd1, %managed0_0;"),
	},
	{
		"initial content",
		".global .u64 x[3] = {generic(a), ab, generic ( ab ) + 4};\n.global .u64 y = a-1;\n" +
			".const .u32 z = 1;\n",
		".global .u64 x[3] = {" + addressA + ", " + addressAB +
			", 0x7f1234560014};\n.global .u64 y = 0x7f123455ffff;\n.const .u32 z = 1;\n",
	},
	{
		"initial content of one that is managed",
		".weak .global .attribute(.managed) .align 8 .u64 c[2] = {generic(ab), 0};\n" +
			kernel(regs+"ld.global.u64 %rd1, [c];"),
		".visible .global  .align 8 .u64 managed0_i2[2] = {" + addressAB + ", 0};\n" +
			kernel(loads("0x7f1234560018")+regs+"ld.global.u64 %rd1, [%managed0_0];"),
	},
	{
		"lines are kept",
		".global\n.attribute(\n.managed)\n.u32\nd;\n" + kernel(regs+"ld.global.u32 %r1, [d];"),
		"\n\n\n\n\n" + kernel(loads("0x7f1234560014")+regs+"ld.global.u32 %r1, [%managed0_0];"),
	},
	{
		"debug information", ".section .debug_info\n{\n.b8 1\n.b64 a\n.b64 ab+4\n}\n",
		".section .debug_info\n{\n.b8 1\n.b64 " + addressA + "\n.b64 0x7f1234560014\n}\n",
	},
	{
		"parameters in global space",
		".visible .entry q(.param .u64 .ptr .global .align 4 p)\n{ ret; }\n",
		".visible .entry q(.param .u64 .ptr .global .align 4 p)\n{ ret; }\n",
	},
}

func TestPlacePTX(t *testing.T) {
	t.Parallel()
	for _, c := range rewritten {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := place(t, open(t, []byte(ptxHead+counted+c.text), "PTX"), base)
			if want := ptxHead + placed + c.want; string(out) != want {
				t.Errorf("got:\n%s\nwant:\n%s", out, want)
			}
			assemble(t, out)
		})
	}
}

// assembler is ptxas of the cache's toolkit; empty where there is none.
func assembler() string {
	path := filepath.Join(vm.FindAssets().Cache, "cuda-12.4/bin/ptxas")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// assemble has NVIDIA's assembler look at a text, where it is installed.
func assemble(t *testing.T, text []byte) {
	t.Helper()
	path := assembler()
	if path == "" {
		t.Log("not assembled: there is no ptxas (make deps)")
		return
	}
	file := filepath.Join(t.TempDir(), "a.ptx")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "-arch=sm_90", "-o", file+".cubin",
		file).CombinedOutput(); err != nil {
		t.Errorf("ptxas: %v\n%s\n%s", err, out, text)
	}
}

// TestPlaceCompiled rewrites what nvcc wrote.
func TestPlaceCompiled(t *testing.T) {
	t.Parallel()
	c := open(t, golden(t, "vars.fatbin"), "PTX")
	out := place(t, c, base)
	for name := range wantVariables {
		for _, use := range []string{"[" + name, ", " + name + ";", " " + name + "["} {
			if bytes.Contains(out, []byte(use)) {
				t.Errorf("%q is left", use)
			}
		}
	}
	assemble(t, out)
}

// TestNames has a text that uses the names that would be given first.
func TestNames(t *testing.T) {
	t.Parallel()
	text := ptxHead + counted + "// managed0_\n" + kernel(regs+"ld.global.u32 %r1, [ab];")
	c := open(t, []byte(text), "PTX")
	if out := place(t, c, base); !bytes.Contains(out, []byte("[%managed1_0]")) ||
		c.Variables[1].Content != "managed1_i1" {
		t.Errorf("%s", out)
	}
	taken := ""
	for i := range 100 {
		taken += "// managed" + string(rune('0'+i/10)) + string(rune('0'+i%10)) + "_ managed" +
			string(rune('0'+i%10)) + "_\n"
	}
	if _, err := Open([]byte(text+taken), 90, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("all names taken: %v", err)
	}
}

func TestRefusedPTX(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"32-bit addresses":     ".version 8.0\n.target sm_75\n.address_size 32\n" + counted,
		"no size of addresses": ".version 8.0\n.target sm_75\n" + counted,
		"of another module":    ptxHead + ".extern .global .attribute(.managed) .u32 x;\n",
		"other attributes": ptxHead +
			".global .attribute(.managed, .unified(1, 2)) .u32 x;\n",
		"no type":              ptxHead + ".global .attribute(.managed) x;\n",
		"no size":              ptxHead + ".global .attribute(.managed) .u32 x[] = {1};\n",
		"no end":               ptxHead + ".global .attribute(.managed) .u32 x",
		"no end of attributes": ptxHead + ".global .attribute(.managed",
		"two in one":           ptxHead + ".global .attribute(.managed) .u32 x, y;\n",
		"twice":                ptxHead + counted + counted,
		"alignment":            ptxHead + ".global .attribute(.managed) .align 3 .u32 x;\n",
		"large alignment":      ptxHead + ".global .attribute(.managed) .align 8192 .u32 x;\n",
		"large": ptxHead +
			".global .attribute(.managed) .b8 x[0x10000000000000];\n",
		"product that wraps": ptxHead +
			".global .attribute(.managed) .b8 x[0x100000000][0x100000000];\n",
		"sum that is large": ptxHead +
			".global .attribute(.managed) .b8 x[0x8000000000], y[1];\n",
		"in a function":           ptxHead + kernel(".global .attribute(.managed) .u32 x;"),
		"out of place":            ptxHead + counted + ".managed\n",
		"a register's name":       ptxHead + counted + kernel(".reg .u32 ab;"),
		"a label":                 ptxHead + counted + kernel("ab: ret;"),
		"a parameter's name":      ptxHead + counted + ".entry k(.param .u64 ab) { ret; }\n",
		"a function's name":       ptxHead + counted + ".entry ab() { ret; }\n",
		"another variable's name": ptxHead + counted + ".const .u32 ab = 3;\n",
		"a part of an address":    ptxHead + counted + ".global .b8 x[2] = {0xFF(a), 0xFF00(a)};\n",
		"one of a generic one":    ptxHead + counted + ".global .b8 x[1] = {0xFF(generic(a))};\n",
		"sum with a name":         ptxHead + counted + ".global .u64 x = a + b;\n",
		"sum in an operand":       ptxHead + counted + kernel("mov.u64 %rd1, a + %rd2;"),
		"behind a sum":            ptxHead + counted + kernel("ld.global.u32 %r1, [%rd1 + a];"),
		"function without end":    ptxHead + counted + ".entry k() { ld.global.u32 %r1, [a];",
		"line with more": ptxHead + counted +
			kernel(".loc 1 2 3; ld.global.u32 %r1, [a];"),
		"no token": ptxHead + counted + "/* no end",
		"many variables": ptxHead + strings.Repeat(".global .attribute(.managed) .u32 x;\n",
			maxVariables+1),
		"much text": ptxHead + counted + strings.Repeat(" ", maxText),
		"many uses": ptxHead + counted +
			kernel(strings.Repeat("mov.u64 a,a,a,a,a,a,a,a;", maxUses/8+1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, found := Find([]byte(text), nil); !found {
				t.Error("not found")
			}
			if codes, err := Open([]byte(text), 90, nil); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%d codes, error %v", len(codes), err)
			}
		})
	}
}

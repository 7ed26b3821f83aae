// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const sample = `//
.version 8.4
.target sm_80, debug
.address_size 64
.file 1 "a.cu"
.extern .func (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.visible .global .align 4 .u32 counter = 7;
.extern .shared .align 16 .b8 dyn[];
.shared .align 8 .b8 fixed[2][5];
.const .align 4 .f32 w[2] = {0f3F800000, 2.5};
.global .align 8 .u64 table[4] = {counter, generic(counter)+8, 5, sub};
.global .align 1 .b8 text[] = {72, 0x69, 0};
.global .align 1 .b8 split[8] = {0xFF(counter), 0xFF00(counter+1)};
.weak .global .attribute(.managed) .align 8 .f64 m;
.func (.param .b32 r) sub(.param .b32 a, .param .align 8 .b8 s[12]) .noreturn
{
	.reg .b32 %r<2>;
	ld.param.u32 %r1, [a];
	st.param.b32 [r+0], %r1;
	ret;
}
.visible .entry k(
	.param .u32 k_param_0,
	.param .u64 .ptr .global .align 16 k_param_1,
	.param .align 4 .b8 k_param_2[6]
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.loc 1 5 3
	.reg .pred %p<3>;
	.reg .b32 %r<10>, %x;
	.local .align 16 .b8 __local_depot0[40];
	@!%p1 bra $L2;
	{
		.reg .b32 %r1;
		mov.u32 %r1, -5;
		bra.uni IN;
	IN:
		add.s32 %x, %r1, %tid.x;
	}
	setp.lt.s32 %p1|%p2, %r9, 0x10;
	ld.shared.v2.u32 {%r1, _}, [fixed+4];
	ts: .branchtargets $L2, $L3;
	brx.idx %r3, ts;
$L2:
	call.uni (retval0), sub, (%r1, %r2);
$L3:
	ret;
}
`

func parseSample(t *testing.T, text string) *Module {
	t.Helper()
	m, err := Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModule(t *testing.T) {
	t.Parallel()
	m := parseSample(t, strings.Replace(sample, "call.uni (retval0), sub, (%r1, %r2);",
		"{ .param .b32 x; .param .align 8 .b8 y[12]; .param .b32 z; call.uni (z), sub, (x, y); }",
		1))
	if m.Major != 8 || m.Minor != 4 || m.Target != "sm_80" || m.Arch != 80 {
		t.Errorf("version %d.%d, target %s, %d", m.Major, m.Minor, m.Target, m.Arch)
	}
	tests := []struct {
		name   string
		space  Space
		size   uint64
		init   []byte
		relocs []Reloc
	}{
		{"counter", Global, 4, []byte{7, 0, 0, 0}, nil},
		{"dyn", Shared, 0, nil, nil},
		{"fixed", Shared, 10, nil, nil},
		{"w", Const, 8, []byte{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0x40}, nil},
		{"table", Global, 32, append(make([]byte, 16), append([]byte{5}, make([]byte, 15)...)...),
			[]Reloc{
				{Offset: 0, Size: 8, Symbol: "counter"},
				{Offset: 8, Size: 8, Symbol: "counter", Addend: 8, Generic: true},
				{Offset: 24, Size: 8, Symbol: "sub"}}},
		{"text", Global, 3, []byte("Hi\x00"), nil},
		{"split", Global, 8, make([]byte, 8), []Reloc{
			{Offset: 0, Size: 1, Symbol: "counter"},
			{Offset: 1, Size: 1, Shift: 8, Symbol: "counter", Addend: 1}}},
		{"m", Global, 8, nil, nil},
	}
	for _, test := range tests {
		v := m.Var(test.name)
		if v == nil || v.Space != test.space || v.Size != test.size ||
			!reflect.DeepEqual(v.Init, test.init) ||
			!reflect.DeepEqual(v.Relocs, test.relocs) {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
	if !m.Var("m").Managed {
		t.Error("m isn't managed")
	}
}

func TestKernel(t *testing.T) {
	t.Parallel()
	m := parseSample(t,
		strings.Replace(sample, "call.uni (retval0), sub, (%r1, %r2);", "bar.sync 0;", 1))
	k := m.Function("k")
	want := []Parameter{{"k_param_0", U32, 4, 0, 4}, {"k_param_1", U64, 8, 8, 8},
		{"k_param_2", B8, 4, 16, 6}}
	if !reflect.DeepEqual(k.Params, want) || k.ParamSize != 22 {
		t.Errorf("parameters %+v of %d bytes", k.Params, k.ParamSize)
	}
	if k.MaxThreads != [3]int{256, 1, 1} || k.MinBlocks != 2 || !k.Entry || k.Linkage != Visible {
		t.Errorf("kernel %+v", k)
	}
	if size := k.SharedSize(m); size != 10 {
		t.Errorf("shared memory %d", size)
	}
	var names []string
	for i := range k.Body {
		names = append(names, k.Body[i].Name())
	}
	wantNames := []string{"bra", "mov.u32", "bra.uni", "add.s32", "setp.lt.s32", "ld.shared.v2.u32",
		"brx.idx", "bar.sync", "ret"}
	if !reflect.DeepEqual(names, wantNames) {
		t.Errorf("instructions %v", names)
	}
	if k.Body[0].Args[0].Index != 7 || !k.Body[0].GuardNot || k.Body[2].Args[0].Index != 3 {
		t.Errorf("branches %+v, %+v", k.Body[0], k.Body[2])
	}
	if !reflect.DeepEqual(k.Body[6].Targets, []int{7, 8}) {
		t.Errorf("targets %v", k.Body[6].Targets)
	}
	// %r1 of the inner block is another register than that of the outer one.
	if inner, outer := k.Body[1].Args[0].Reg, k.Body[5].Args[0].Elems[0].Reg; inner == outer {
		t.Errorf("registers %d and %d", inner, outer)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	const head = ".version 8.0\n.target sm_80\n.address_size 64\n"
	body := func(text string) string {
		return head + ".entry k() {\n.reg .b32 %r<3>;\n" + text + "\n}"
	}
	tests := []struct {
		name, text string
		line       int
	}{
		{"empty", "", 1},
		{"no target", ".version 8.0\n", 2},
		{"version", ".version 2.0\n.target sm_20", 2},
		{"32-bit", ".version 8.0\n.target sm_80\n.address_size 32", 3},
		{"garbage", head + "hello", 4},
		{"directive", head + ".foo x;", 4},
		{"register", body("mov.u32 %r1, %tid.x;\nadd.s32 %r1, %r9, 1;"), 7},
		{"label", body("bra NOWHERE;"), 6},
		{"label twice", body("A:\nA: ret;"), 7},
		{"guard", body("@%r1 bra A;"), 6},
		{"call", body("call nothing;"), 6},
		{"operand", body("add.s32 %r1, , 2;"), 6},
		{"end", head + ".entry k() {", 4},
		{"comment", head + "/* ", 4},
		{"string", head + ".file 1 \"x", 4},
		{"number", body("mov.u32 %r1, 0x;"), 6},
		{"float", body("mov.u32 %r1, 0f12;"), 6},
		{"huge array", head + ".global .b8 x[99999999999];", 4},
		{"huge product", head + ".global .b8 x[65536][65536][65536];", 4},
		{"too many values", head + ".global .b8 x[1] = {1, 2};", 4},
		{"unknown symbol", head + ".global .u64 x = y;", 4},
		{"declared twice", head + ".global .u32 x;\n.global .u32 x;", 5},
		{"vector in vector", body("mov.b64 {{%r1}}, 1;"), 6},
		{"wide registers", head + ".entry k() { .reg .v4 .b32 x; }", 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, err := Parse([]byte(test.text), nil)
			var reason *Error
			if !errors.As(err, &reason) {
				t.Fatalf("module %v, error %v", m, err)
			}
			if reason.Line != test.line {
				t.Errorf("line %d, want %d: %v", reason.Line, test.line, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add(".version 8.0\n.target sm_80\n.global .f64 x[2] = {1e5, -0d3FF0000000000000};")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse([]byte(text), nil)
		var reason *Error
		if err != nil && !errors.As(err, &reason) {
			t.Errorf("error %v isn't an *Error", err)
		}
		if err == nil && m.Major == 0 {
			t.Error("module without version")
		}
	})
}

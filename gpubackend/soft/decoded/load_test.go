// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes/lanestest"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

const loadHead = ".version 8.0\n.target sm_90\n.address_size 64\n" +
	".extern .func other(.param .b32 a);\n" +
	".visible .entry k(.param .u64 a)\n{\n.reg .pred %p<3>; .reg .b16 %rs<3>; .reg .b32 %r<10>; " +
	".reg .b64 %rd<4>; .reg .f32 %f<10>;\n"

// TestUnsupported checks that what can't be executed is refused by name and line.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	tests := []struct{ body, want string }{
		{"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, " +
			"[%rd1], %r8;",
			"wmma.load.a.sync.aligned.row.m16n16k16.global.f16: instruction not supported"},
		{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, " +
			"{%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f4,%f5,%f6,%f7};",
			"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32: instruction not supported"},
		{"tex.2dms.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%rd1, {%r0,%r1,%r2,%r3}];",
			"tex.2dms.v4.f32.s32: geometry not supported"},
		{"tex.2d.v4.f16.f32 {%rs0,%rs1,%rs2,%rs0}, [%rd1, {%f4,%f5}];",
			"tex.2d.v4.f16.f32: type not supported"},
		{"tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%rd1, {%f4}];",
			"tex.2d.v4.f32.f32: operands not supported"},
		{"tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%rd1, {%f4,%f5}], {%r0,%r1};",
			"tex.2d.v4.f32.f32: operands not supported"},
		{"tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%rd1+4, {%f4,%f5}];",
			"tex.2d.v4.f32.f32: texture or surface with an offset"},
		{"sust.p.2d.v4.b32.trap [%rd1, {%r0,%r1}], {%r0,%r1,%r2,%r3};",
			"sust.p.2d.v4.b32.trap: formatted access not supported"},
		{"suld.b.2d.v4.b64.trap {%rd0,%rd1,%rd2,%rd3}, [%rd1, {%r0,%r1}];",
			"suld.b.2d.v4.b64.trap: type not supported"},
		{"suld.b.2d.b32 {%r2}, [%rd1, {%r0,%r1}];",
			"suld.b.2d.b32: no mode for addresses beyond the edges"},
		{"add.foo.s32 %r1, %r2, %r3;", "add.foo.s32: modifier .foo not supported"},
		{"add.s32 %r1, %r2;", "add.s32: operands not supported"},
		{"add.f8 %r1, %r2, %r3;", "add.f8: type not supported"},
		{"cvt.rn.f16.e4m3 %rs1, %rs2;", "cvt.rn.f16.e4m3: "},
		{"setp.lt.s32 %r1, %r2, %r3;", "setp.lt.s32: operands not supported"},
		{"selp.b32 %r1, %r2, %r3, %r4;", "selp.b32: operands not supported"},
		{"ld.global.u64 %r1, [%rd1];", "ld.global.u64: operands not supported"},
		{"ld.global.u32 %r1, [%rs1];", "ld.global.u32: operands not supported"},
		{"ld.param.u64 %rd1, [a+8];", "ld.param.u64: bytes 8 to 16 of 8 bytes of parameters"},
		{"mov.u32 %r1, %pm0;", "mov.u32: special register %pm0 not supported"},
		{"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;",
			"cp.async.bulk.global.shared::cta.bulk_group: form not supported"},
		{"{ .param .b32 x; st.param.b32 [x], %r1; call other, (x); }",
			"call: function other isn't defined"},
		{"atom.global.add.b32 %r1, [%rd1], %r2;", "atom.global.add.b32: type not supported"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			m, err := ptx.Parse([]byte(loadHead+test.body+"\nret;\n}\n"), nil)
			if err == nil {
				_, err = Load(m, nil)
			}
			var reason *ptx.Error
			if !errors.As(err, &reason) || reason.Line != 8 ||
				!strings.HasPrefix(reason.Msg, test.want) {
				t.Errorf("error %v, want line 8: %s", err, test.want)
			}
		})
	}
}

// decodeBody loads a kernel with a body, and returns its first instruction.
func decodeBody(t *testing.T, regs, body string) *Inst {
	t.Helper()
	m, err := ptx.Parse([]byte(".version 8.0\n.target sm_90\n.address_size 64\n"+
		".visible .entry k()\n{\n"+regs+"\n"+body+"\nret;\n}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Load(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &p.Code[0]
}

// loopOf makes the instruction that the loop with this key is to execute.
func loopOf(key string) (regs, body string) {
	types := lanestest.TypesOf(key)
	args := []string{}
	for i, t := range types {
		if t != "" {
			regs += fmt.Sprintf(".reg .%s %%%s_%d;\n", t, t, i)
			args = append(args, fmt.Sprintf("%%%s_%d", t, i))
		}
	}
	op, rest, _ := strings.Cut(key, ".")
	bits := strings.NewReplacer("u16", "b16", "u32", "b32", "u64", "b64")
	switch op {
	case "and", "or", "xor", "not", "shl", "selp", "popc", "clz":
		rest = bits.Replace(rest)
	case "neg":
		rest = strings.ReplaceAll(rest, "u", "s")
	case "fma", "div", "sqrt", "rcp":
		if strings.HasPrefix(rest, "f") {
			rest = "rn." + rest
		}
	case "add", "sub", "mul":
		if strings.HasPrefix(rest, "ftz") {
			rest = "rn." + rest
		}
	case "cvt":
		if rest == "f32.f64" || strings.HasPrefix(rest, "f") && !strings.Contains(rest, ".f") {
			rest = "rn." + rest
		}
	}
	return regs, op + "." + rest + " " + strings.Join(args, ", ") + ";"
}

// TestLoopsAreUsed: an operation that has a loop is decoded to it, unless a register has another
// width.
func TestLoopsAreUsed(t *testing.T) {
	t.Parallel()
	for _, key := range lanes.Loops() {
		regs, body := loopOf(key)
		in := decodeBody(t, regs, body)
		if in.Kind != KindCompute || !same(in.Compute, lanes.Loop(key)) {
			t.Errorf("%s isn't executed by its loop", key)
		}
	}
	in := decodeBody(t, ".reg .b64 %d;\n.reg .b32 %a;", "add.u32 %d, %a, %a;")
	if same(in.Compute, lanes.Loop("add.u32")) {
		t.Error("a loop for registers of 32 bits writes one of 64")
	}
}

func same(f, g lanes.Func) bool {
	return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer()
}

// TestOperations: instructions of the warp are decoded to their operations.
func TestOperations(t *testing.T) {
	t.Parallel()
	const regs = ".reg .pred %p<3>; .reg .b16 %h<3>; .reg .b32 %r<5>; .reg .b64 %d<5>;"
	for _, c := range []struct {
		body string
		want Op
		kind Kind
	}{
		{"ld.global.u32 %r1, [%d1];", QuickAccess(AccessGlobal, Access32, false), KindAccess},
		{"st.global.u64 [%d1], %d2;", QuickAccess(AccessGlobal, Access64, true), KindAccess},
		{"ld.shared.s8 %h1, [%d1];", QuickAccess(AccessShared, AccessS8in16, false), KindAccess},
		{"st.shared.s8 [%r1], %r2;", QuickAccess(AccessShared32, AccessU8in32, true), KindAccess},
		{"ld.v2.u32 {%r1, %r2}, [%d1];", QuickAccess(AccessVector, Access32, false), KindAccess},
		{"ld.volatile.global.u32 %r1, [%d1];", OpLoad, KindAccess},
		{"st.local.u32 [%d1], %r1;", OpStore, KindAccess},
		{"atom.global.add.u32 %r1, [%d1], %r2;", OpAdd32, KindAccess},
		{"atom.global.max.s64 %d1, [%d2], %d3;", OpUpdate64, KindAccess},
		{"red.shared.add.u64 [%d2], %d3;", OpAdd64, KindAccess},
		{"shfl.down.b32 %r1, %r2, %r3, %r4;", OpShuffleDown, KindExecute},
		{"vote.ballot.b32 %r1, %p1;", OpBallot, KindExecute},
		{"mov.u32 %r1, %clock_hi;", OpClock, KindExecute},
		{"activemask.b32 %r1;", OpActiveMask, KindExecute},
		{"membar.gl;", OpFence, KindExecute},
		{"trap;", OpTrap, KindExecute},
	} {
		if in := decodeBody(t, regs, c.body); in.Kind != c.kind || in.Op != c.want {
			t.Errorf("%s: kind %d, operation %d, want %d", c.body, in.Kind, in.Op, c.want)
		}
	}
}

// TestQuickAccessesDiffer: no two of them have the same number, and none has a simple operation's.
func TestQuickAccessesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[Op]bool{}
	for way := range accessWays {
		for element := range accessElements {
			for _, store := range []bool{false, true} {
				op := QuickAccess(way, element, store)
				if seen[op] || op < opAccess {
					t.Errorf("way %d, element %d: number %d is another's", way, element, op)
				}
				seen[op] = true
			}
		}
	}
}

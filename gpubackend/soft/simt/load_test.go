// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
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
			"suld.b.2d.b32: mode for addresses beyond the edges missing"},
		{"add.foo.s32 %r1, %r2, %r3;", "add.foo.s32: modifier .foo not supported"},
		{"add.s32 %r1, %r2;", "add.s32: operands not supported"},
		{"add.f8 %r1, %r2, %r3;", "add.f8: type not supported"},
		{"cvt.rn.f16.e4m3 %rs1, %rs2;", "cvt.rn.f16.e4m3: "},
		{"setp.lt.s32 %r1, %r2, %r3;", "setp.lt.s32: operands not supported"},
		{"selp.b32 %r1, %r2, %r3, %r4;", "selp.b32: operands not supported"},
		{"ld.global.u64 %r1, [%rd1];", "ld.global.u64: operands not supported"},
		{"ld.global.u32 %r1, [%rs1];", "ld.global.u32: operands not supported"},
		{"ld.param.u64 %rd1, [a+8];", "ld.param.u64: parameter bytes 8 to 16 of 8"},
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

// vanished is memory that is reported as valid, but not mapped.
type vanished struct{}

func (vanished) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	return addr &^ 0xfffff, addr&^0xfffff + 0x100000, true, true
}

func TestVanishedMemory(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	l := d.launch("vectorAdd", linear(4), linear(64), uint64(0x200000000000),
		uint64(0x200000000000), uint64(0x200000000000), int32(256))
	l.Memory = vanished{}
	wantFault(t, l, cudaabi.ErrorIllegalAddress)
}

func TestKernelInfo(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	var names []string
	for _, k := range d.prog.Kernels() {
		names = append(names, k.Name)
	}
	want := "histogram matmul reduceShuffle scanBlock stencil vectorAdd"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("kernels %s, want %s", got, want)
	}
	k := d.prog.Kernel("matmul")
	if k.StaticShared != 2048 || k.ParamSize != 28 || k.Registers < 16 || k.Registers > 255 ||
		k.LocalSize != 0 {
		t.Errorf("kernel %+v", k)
	}
	if k := d.prog.Kernel("scanBlock"); k.StaticShared != 0 {
		t.Errorf("scanBlock has %d bytes of static shared memory", k.StaticShared)
	}
	if err := d.prog.Link(nil); err == nil {
		t.Error("linked twice")
	}
	if err := (&Launch{}).Run(context.Background()); err == nil {
		t.Error("launch without a kernel")
	}
}

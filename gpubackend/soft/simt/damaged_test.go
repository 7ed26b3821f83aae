// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/ptxlex/ptxlextest"
)

// sound are valid instructions of each kind that the decoders know.
var sound = []string{
	"add.sat.s32 %r1, %r2, -3;", "addc.cc.u32 %r1, %r2, %r3;", "mad.lo.cc.u32 %r1, %r2, %r3, 4;",
	"mul.wide.s16 %r1, %rs1, %rs2;", "div.rn.ftz.f32 %f1, %f2, %f3;", "rem.u64 %rd1, %rd2, %rd3;",
	"sad.u32 %r1, %r2, %r3, %r1;", "abs.s64 %rd1, %rd2;", "fma.rz.sat.f32 %f1, %f2, %f3, %f1;",
	"sqrt.approx.ftz.f32 %f1, %f2;", "rcp.rn.f64 %fd1, %fd2;", "ex2.approx.f32 %f1, %f2;",
	"testp.finite.f32 %p1, %f1;", "copysign.f64 %fd1, %fd2, %fd1;", "min.NaN.f32 %f1, %f2, %f3;",
	"cvt.rni.sat.u8.f32 %r1, %f1;", "cvt.rn.f16x2.f32 %r1, %f1, %f2;", "cvt.s64.s8 %rd1, %r1;",
	"setp.geu.or.f32 %p1|%p2, %f1, 0f3F800000, !%p3;", "set.lt.and.s32.f32 %r1, %f1, %f2, %p1;",
	"selp.b64 %rd1, %rd2, 7, %p1;", "slct.f32.s32 %f1, %f2, %f3, %r1;", "not.pred %p1, %p2;",
	"lop3.or.b32 %r1|%p1, %r2, %r3, %r1, 0x80, %p2;", "lop3.b32 %r1, %r2, %r3, %r1, 150;",
	"shf.l.clamp.b32 %r1, %r2, %r3, 5;", "bfi.b64 %rd1, %rd2, %rd3, 8, 9;", "brev.b32 %r1, %r2;",
	"bfind.shiftamt.u32 %r1, %r2;", "fns.b32 %r1, %r2, 0, 3;", "popc.b64 %r1, %rd1;",
	"dp4a.u32.s32 %r1, %r2, %r3, %r1;", "dp2a.lo.s32.u32 %r1, %r2, %r3, 1;",
	"prmt.b32.f4e %r1, %r2, %r3, 5;", "szext.wrap.s32 %r1, %r2, 3;", "bmsk.clamp.b32 %r1, 2, 3;",
	"vadd.s32.u32.s32.sat.add %r1, %r2.b1, %r3.h0, %r2;", "vset.s32.u32.lt %r1, %r2.b3, %r3;",
	"vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r1;", "vmad.s32.s32.u32.shr7 %r1, %r2.h1, %r3, %r1;",
	"mov.b64 %rd1, {%r1, %r2};", "mov.b64 {%r1, _}, %rd1;", "mov.u64 %rd1, k;", "mov.u32 %r1, s;",
	"mov.u32 %r1, %laneid;", "mov.u64 %rd1, %clock64;", "mov.v2.u32 {%r1, %r2}, {%r2, %r1};",
	"ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r0}, [%rd1+16];", "ld.param.u64 %rd1, [a];",
	"ld.acquire.gpu.global.u64 %rd1, [%rd2];", "ld.const.s8 %r1, [s];",
	"ldu.global.f32 %f1, [%rd1];",
	"st.release.sys.shared.b16 [s+2], %rs1;", "st.local.v2.f64 [l+8], {%fd1, %fd2};",
	"prefetch.global.L2 [%rd1];", "prefetchu.L1 [%rd1];", "isspacep.shared %p1, %rd1;",
	"cvta.to.global.u64 %rd1, %rd2;", "cvta.shared.u64 %rd1, s;", "membar.gl;",
	"fence.acq_rel.gpu;",
	"atom.acq_rel.gpu.shared.cas.b32 %r1, [s], %r2, %r3;",
	"atom.global.add.noftz.f16 %rs1, [%rd1], %rs2;",
	"atom.shared.inc.u32 %r1, [s+4], 7;", "red.relaxed.global.max.s64 [%rd1+8], %rd2;",
	"atom.exch.b64 %rd1, [%rd2], 5;", "bar.sync 1, 64;", "bar.red.popc.u32 %r1, 0, %p1;",
	"barrier.sync.aligned 0;", "bar.arrive 2, 64;", "bar.warp.sync 0xffffffff;",
	"activemask.b32 %r1;",
	"shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1;", "vote.sync.uni.pred %p1, %p2, -1;",
	"match.all.sync.b64 %r1|%p1, %rd1, -1;", "redux.sync.add.s32 %r1, %r2, -1;",
	"elect.sync %r1|%p1, -1;",
	"mbarrier.init.shared.b64 [s], 40;", "mbarrier.arrive.shared.b64 %rd1, [s], 2;",
	"mbarrier.test_wait.shared.b64 %p1, [s], %rd1;", "mbarrier.arrive_drop.shared.b64 %rd1, [s];",
	"cp.async.ca.shared.global [s], [%rd1], 16, 8;", "cp.async.wait_group 1;", "cp.async.wait_all;",
	"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, " +
		"{%r1,%r2}, {%f0,%f1,%f2,%f3};",
	"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r1, %r2}, [s];",
	"tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [t, {%f1,%f2}];",
	"tld4.a.2d.v4.u32.f32 {%r0,%r1,%r2,%r3}, " +
		"[t, {%f1,%f2}];", "txq.array_size.b32 %r1, [t];", "suq.width.b32 %r1, [u];",
	"suld.b.1d.v2.b32.trap {%r1,%r2}, [u, {%r3}];",
	"sust.b.3d.b16.zero [u, {%r1,%r2,%r3,%r3}], {%rs1};",
	"{ .param .b32 x; st.param.b32 [x+0], %r1; call.uni f, (x); }", "brkpt;", "nanosleep.u32 5;",
	"pmevent 3;", "trap;", "exit;", "ret.uni;", "@%p1 exit;", "bra.uni L; L: ret;",
	"discard.L2 [%rd1], 128;",
	"ts: .branchtargets L, M; brx.idx.uni %r1, ts; L: M: ret;", "griddepcontrol.wait;",
	"createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;",
	"applypriority.L2::evict_normal [%rd1], 128;",
	"add.rn.f16x2 %r1, %r2, %r3;", "fma.rn.relu.bf16 %rs1, %rs2, %rs3, %rs1;",
	"tanh.approx.f16 %rs1, %rs2;",
	"alloca.u64 %rd1, 64;", "setmaxnreg.inc.sync.aligned.u32 64;",
	"getctarank.shared::cta.u32 %r1, s;",
}

// TestDamagedKernels: whatever is wrong with an instruction in one place, it is refused with its
// line, or its kernel ends, with a fault or without, or at the deadline.
func TestDamagedKernels(t *testing.T) {
	t.Parallel()
	d := newDevice(t, 4<<20)
	buffer := put(d, make([]uint64, 64))
	objects := fuzzObjects(buffer)
	n := 0
	for _, body := range sound {
		for damaged := range ptxlextest.Damaged(body) {
			if n++; testing.Short() && n%7 != 0 {
				continue
			}
			runBody(t, d, buffer, objects, damaged, 5*time.Millisecond)
		}
		if t.Failed() {
			t.Fatal(body)
		}
	}
}

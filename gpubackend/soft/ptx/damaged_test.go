// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/ptxlex/ptxlextest"
)

// more has what sample lacks.
const more = `.version 8.4
.target sm_80
.address_size 64
.section .debug_str { .b8 1, 2, -3; info: .b64 info+4 }
.pragma "nounroll";
.visible .global .align 4 .u32 s[2][3] = {{1, 2}, {3}};
.global .align 8 .u64 where = s+4;
.global .f64 numbers[3] = {1.0, 0d3FF0000000000000, -2.5e3};
.global .v4 .f32 four = {1.0, 2.0};
.global .texref t; .global .surfref u;
.func declared(.param .b32 a);
.func (.param .b32 r) b(.param .b32 x, .param .b64 y) .noreturn { trap; ret; }
.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 c[16])
.maxntid 32, 2 .reqntid 8 .minnctapersm 1 .maxnreg 64
{
	.reg .pred %go; .reg .b32 %r<4>, %q; .reg .b64 %rd; .shared .align 4 .b8 sh[8];
	.param .align 4 .b8 p[4];
	p1: .callprototype (.param .b32 _) _ (.param .b32 _, .param .align 8 .b8 _[8]);
	ts: .branchtargets L;
	{ .param .b32 r0; .param .b32 x0; .param .b64 y0;
	call.uni (r0), b, (x0, y0);
	call (r0), %rd, (x0, y0), p1; }
	ld.param.v2.b32 {%r1, %r2}, [c+8];
	st.shared.b32 [sh], -0x5;
	tex.2d.v4.f32.f32 {%r1, %r2, %r3, %q}, [t, {%r1, %r2}];
	mov.u64 %rd, sh; mov.u32 %r1, WARP_SZ; mov.u32 %r1, %ctaid.y;
	.loc 1 2 3
	@!%go bra L;
	brx.idx %r1, ts;
	L: exit;
}
`

// TestDamagedText: whatever is wrong in one place, the result is a module, or an error with the
// line.
func TestDamagedText(t *testing.T) {
	t.Parallel()
	n := 0
	for _, text := range []string{sample, more} {
		if _, err := Parse([]byte(text), nil); err != nil {
			t.Fatal(err)
		}
		for damaged := range ptxlextest.Damaged(text) {
			if n++; testing.Short() && n%5 != 0 {
				continue
			}
			m, err := Parse([]byte(damaged), nil)
			var reason *Error
			if err != nil && (m != nil || !errors.As(err, &reason) || reason.Line == 0) {
				t.Fatalf("module %v, error %v, of\n%s", m, err, damaged)
			}
		}
	}
}

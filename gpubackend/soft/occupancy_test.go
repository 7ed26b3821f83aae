// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// hungry is a kernel with many registers and these directives.
func hungry(directives string) []byte {
	var b strings.Builder
	b.WriteString(".version 7.0\n.target sm_80\n.address_size 64\n")
	fmt.Fprintf(&b, ".visible .entry hungry() %s\n{\n.reg .b64 %%r<2000>;\n", directives)
	for i := range 2000 {
		fmt.Fprintf(&b, "mov.u64 %%r%d, %d;\n", i, i)
	}
	b.WriteString("ret;\n}\n\x00")
	return []byte(b.String())
}

// TestRegistersWithinDirectives: a kernel gets no more registers than its directives allow, so that
// a launch within them never lacks any.
func TestRegistersWithinDirectives(t *testing.T) {
	d := newDevice(t, Options{})
	for _, c := range []struct {
		directives      string
		threads, blocks uint32 // that must be possible
		most            int32  // registers
	}{
		{"", 1024, 1, 64},
		{".maxntid 1024, 1, 1", 1024, 1, 64},
		{".maxntid 768, 1, 1", 768, 1, 80},
		{".maxntid 512, 1, 1", 512, 1, 128},
		{".maxntid 320, 1, 1", 320, 1, 168},
		{".maxntid 256, 1, 1", 256, 1, 255},
		{".maxntid 33, 1, 1", 33, 1, 255},
		{".maxntid 16, 16, 1", 256, 1, 255},
		{".reqntid 1024, 1, 1", 1024, 1, 64},
		{".maxntid 256, 1, 1 .minnctapersm 4", 256, 4, 64},
		{".maxntid 256, 1, 1 .minnctapersm 8", 256, 8, 32},
		{".maxntid 1024, 1, 1 .minnctapersm 2", 1024, 2, 32},
		{".maxntid 1024, 1, 1 .minnctapersm 60000", 1024, 2, 32},
		{".maxnreg 40", 1024, 1, 40},
		{".maxntid 1024, 1, 1 .maxnreg 200", 1024, 1, 64},
	} {
		t.Run(c.directives, func(t *testing.T) {
			m, _, _, result := d.ModuleLoadData(hungry(c.directives), nil, nil, nil)
			ok(t, result)
			f := getFunction(t, d, m, "hungry")
			launchBlocks(t, d, f, 1, c.threads, nil)
			b := make([]byte, 4096)
			_, result = d.FuncDescribe(f, b)
			ok(t, result)
			var r wire.FunctionRecord
			r.Decode(b)
			if got := r.Attribute[cudaabi.FuncAttributeNumRegs]; got != c.most {
				t.Errorf("%d registers, want %d", got, c.most)
			}
			if got := r.Attribute[cudaabi.FuncAttributeMaxThreadsPerBlock]; got < int32(c.threads) {
				t.Errorf("at most %d threads, want %d", got, c.threads)
			}
			threads := uint64(c.threads)
			n, result := d.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(f, threads, 0, 0)
			ok(t, result)
			if n < uint64(c.blocks) {
				t.Errorf("%d blocks of %d threads fit, want %d", n, c.threads, c.blocks)
			}
		})
	}
}

// reserving reports where reserved shared memory is and what is there at first. It writes its
// block's number to shared memory of its own, and one more to the reserved.
const reserving = `.version 7.6
.target sm_80
.address_size 64
.visible .entry reserving(.param .u64 out)
{
	.reg .b32 %r<16>;
	.reg .b64 %d<6>;
	.shared .align 4 .b8 own[100];
	ld.param.u64 %d1, [out];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %d2, %r1, 40;
	add.s64 %d1, %d1, %d2;
	mov.u32 %r2, %reserved_smem_offset_begin;
	mov.u32 %r3, %reserved_smem_offset_end;
	mov.u32 %r4, %reserved_smem_offset_cap;
	mov.u32 %r5, %reserved_smem_offset_0;
	mov.u32 %r6, %reserved_smem_offset_1;
	mov.u32 %r7, %total_smem_size;
	mov.u32 %r8, own;
	st.shared.u32 [%r8+96], %r1;
	cvt.u64.u32 %d3, %r6;
	cvta.shared.u64 %d4, %d3;
	ld.u32 %r9, [%d4];
	ld.shared.u32 %r10, [%r3+-4];
	add.u32 %r11, %r1, 1;
	st.shared.u32 [%r6], %r11;
	st.shared.u32 [%r3+-4], %r11;
	st.shared.u32 [%r2], %r11;
	ld.shared.u32 %r12, [%r8+96];
	st.global.u32 [%d1], %r2;
	st.global.u32 [%d1+4], %r3;
	st.global.u32 [%d1+8], %r4;
	st.global.u32 [%d1+12], %r5;
	st.global.u32 [%d1+16], %r6;
	st.global.u32 [%d1+20], %r7;
	st.global.u32 [%d1+24], %r8;
	st.global.u32 [%d1+28], %r9;
	st.global.u32 [%d1+32], %r10;
	st.global.u32 [%d1+36], %r12;
	ret;
}
` + "\x00"

// TestReservedSharedMemory: it is 1024 bytes that are no part of a block's own, and it is 0 when a
// block begins.
func TestReservedSharedMemory(t *testing.T) {
	const blocks, dynamic = 64, 300
	d := newDevice(t, Options{})
	m, _, _, result := d.ModuleLoadData([]byte(reserving), nil, nil, nil)
	ok(t, result)
	out := alloc(t, d, 40*blocks)
	ok(t, d.Launch(&gpubackend.Launch{
		Function: getFunction(t, d, m, "reserving"), Grid: [3]uint32{blocks, 1, 1},
		Block: [3]uint32{1, 1, 1}, Shared: dynamic, Parameters: params(out),
	}))
	synchronize(t, d)
	b := read(t, d, out, 40*blocks)
	for i := range uint32(blocks) {
		v := func(n int) uint32 { return binary.LittleEndian.Uint32(b[int(i)*40+4*n:]) }
		begin, end, size, first, groups, total, own := v(0), v(1), v(2), v(3), v(4), v(5), v(6)
		if size != 1024 || end-begin != size || first < begin ||
			groups < begin || groups+288 > end || groups%8 != 0 {
			t.Fatalf("reserved: %d to %d, %d bytes, at %d and %d", begin, end, size, first, groups)
		}
		if total < 100+dynamic || total >= 100+dynamic+16 || begin < own+total && own < end {
			t.Fatalf("%d bytes from %d on, reserved from %d to %d", total, own, begin, end)
		}
		if v(7) != 0 || v(8) != 0 || v(9) != i {
			t.Fatalf("block %d: reserved %d and %d at first, own %d", i, v(7), v(8), v(9))
		}
	}
}

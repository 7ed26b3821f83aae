// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// accessing are kernels whose operands lie in different allocations: y[i] += 2 * x[i], by words and
// by vectors of four, and copies by vectors of each kind, in which a register of addresses is
// loaded, too.
const accessing = `.version 7.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u64 x, .param .u64 y)
{
	.reg .b32 %r<8>;
	.reg .f32 %f<4>;
	.reg .b64 %d<8>;
	ld.param.u64 %d1, [x];
	ld.param.u64 %d2, [y];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	mul.wide.u32 %d3, %r4, 4;
	add.s64 %d4, %d1, %d3;
	add.s64 %d5, %d2, %d3;
	ld.global.f32 %f1, [%d4];
	ld.global.f32 %f2, [%d5];
	fma.rn.f32 %f3, %f1, 0f40000000, %f2;
	st.global.f32 [%d5], %f3;
	ret;
}
.visible .entry saxpy4(.param .u64 x, .param .u64 y)
{
	.reg .b32 %r<8>;
	.reg .f32 %f<16>;
	.reg .b64 %d<8>;
	ld.param.u64 %d1, [x];
	ld.param.u64 %d2, [y];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	mul.wide.u32 %d3, %r4, 16;
	add.s64 %d4, %d1, %d3;
	add.s64 %d5, %d2, %d3;
	ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d4];
	ld.global.v4.f32 {%f5, %f6, %f7, %f8}, [%d5];
	fma.rn.f32 %f9, %f1, 0f40000000, %f5;
	fma.rn.f32 %f10, %f2, 0f40000000, %f6;
	fma.rn.f32 %f11, %f3, 0f40000000, %f7;
	fma.rn.f32 %f12, %f4, 0f40000000, %f8;
	st.global.v4.f32 [%d5], {%f9, %f10, %f11, %f12};
	ret;
}
.visible .entry vectors(.param .u64 x, .param .u64 y)
{
	.reg .pred %p<2>;
	.reg .b16 %h<8>;
	.reg .b32 %r<8>;
	.reg .b64 %d<8>;
	ld.param.u64 %d1, [x];
	ld.param.u64 %d2, [y];
	mov.u32 %r3, %tid.x;
	mul.wide.u32 %d3, %r3, 64;
	add.s64 %d4, %d1, %d3;
	add.s64 %d5, %d2, %d3;
	and.b32 %r1, %r3, 1;
	setp.eq.u32 %p1, %r1, 0;
	ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%d4];
	st.global.v4.u8 [%d5], {%h1, %h2, %h3, %h4};
	@%p1 ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%d4+8];
	@%p1 st.global.v4.u16 [%d5+8], {%h1, %h2, %h3, %h4};
	ld.global.v2.u32 {%r1, %r2}, [%d4+16];
	@%p1 st.global.v2.u32 [%d5+16], {%r1, %r2};
	ld.global.v2.s8 {%h1, %h2}, [%d4+24];
	st.global.v2.u16 [%d5+24], {%h1, %h2};
	ld.global.v2.u64 {%d4, %d6}, [%d4+32];
	st.global.v2.u64 [%d5+32], {%d4, %d6};
	ret;
}
` + "\x00"

func accessKernel(t testing.TB, d *Device, name string) gpubackend.Function {
	t.Helper()
	m, _, _, result := d.ModuleLoadData([]byte(accessing), nil, nil, nil)
	ok(t, result)
	return getFunction(t, d, m, name)
}

func launchBlocks(
	t testing.TB, d *Device, f gpubackend.Function, blocks, threads uint32, parameters []byte,
) {
	t.Helper()
	ok(t, d.Launch(&gpubackend.Launch{
		Function: f, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1},
		Parameters: parameters,
	}))
}

func floats(n int, f func(i int) float32) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f(i)))
	}
	return b
}

// apart allocates memory that no other allocation shares a segment with.
func apart(t testing.TB, d *Device) uint64 {
	t.Helper()
	return alloc(t, d, apartBytes)
}

const apartBytes = devmem.SharedSegment + devmem.Granularity

// TestOperandsInDifferentAllocations: each of a kernel's accesses goes where it should, whatever
// was accessed before.
func TestOperandsInDifferentAllocations(t *testing.T) {
	const n = 1 << 20
	for _, name := range []string{"saxpy", "saxpy4"} {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, Options{})
			f, each := accessKernel(t, d, name), uint32(1+3*(len(name)-len("saxpy")))
			x, y := apart(t, d), apart(t, d)
			ok(t, d.CopyIn(x, floats(n, func(i int) float32 { return float32(i) }), 0))
			ok(t, d.CopyIn(y, floats(n, func(i int) float32 { return 1 }), 0))
			launchBlocks(t, d, f, n/128/each, 128, params(x, y))
			synchronize(t, d)
			want := floats(n, func(i int) float32 { return float32(2*i + 1) })
			if got := read(t, d, y, 4*n); string(got) != string(want) {
				t.Error("wrong")
			}
		})
	}
}

// TestVectors: of all widths, for some lanes and for all, and into the register of their address.
func TestVectors(t *testing.T) {
	const threads, each = 64, 64
	d := newDevice(t, Options{})
	x, y := apart(t, d), apart(t, d)
	in := make([]byte, threads*each)
	for i := range in {
		in[i] = byte(i*7 + i/64)
	}
	ok(t, d.CopyIn(x, in, 0))
	launchBlocks(t, d, accessKernel(t, d, "vectors"), 1, threads, params(x, y))
	synchronize(t, d)
	want := make([]byte, len(in))
	for i := range threads {
		from, to := in[i*each:][:each], want[i*each:][:each]
		copy(to[:4], from)
		if i%2 == 0 {
			copy(to[8:16], from[8:])
			copy(to[16:24], from[16:])
		}
		for k := range 2 {
			binary.LittleEndian.PutUint16(to[24+2*k:], uint16(int8(from[24+k])))
		}
		copy(to[32:48], from[32:])
	}
	if got := read(t, d, y, uint64(len(want))); string(got) != string(want) {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("byte %d of thread %d: %#x, want %#x", i%each, i/each, got[i], want[i])
			}
		}
	}
}

// TestVectorFaults: what is misaligned or only partly there is found as for single elements.
func TestVectorFaults(t *testing.T) {
	for what, offset := range map[string]uint64{
		"misaligned": 8, "beyond the end": apartBytes - 64*16 + 16,
	} {
		t.Run(what, func(t *testing.T) {
			d := newDevice(t, Options{})
			x, y := apart(t, d), apart(t, d)
			last := max(x, y)
			launchBlocks(t, d, accessKernel(t, d, "saxpy4"), 1, 64, params(min(x, y), last+offset))
			want := gpubackend.IllegalAddress
			if strings.HasPrefix(what, "mis") {
				want = gpubackend.MisalignedAddress
			}
			if got := wait(t, d.ContextQuery); got != want {
				t.Errorf("result %d, want %d", got, want)
			}
		})
	}
}

// processorTime is what this process has used, in nanoseconds.
func processorTime(tb testing.TB) int64 {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkAccess is what operands in segments of their own, and vectors of them, cost of the
// processors' time.
func BenchmarkAccess(b *testing.B) {
	const n = 1 << 20
	for _, name := range []string{"saxpy", "saxpy4"} {
		for _, segments := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/segments=%d", name, segments), func(b *testing.B) {
				d := newDevice(b, Options{})
				f, each := accessKernel(b, d, name), uint32(1+3*(len(name)-len("saxpy")))
				x := apart(b, d)
				y := x + 4*n
				if segments == 2 {
					y = apart(b, d)
				}
				begin := processorTime(b)
				for b.Loop() {
					launchBlocks(b, d, f, n/256/each, 256, params(x, y))
					synchronize(b, d)
				}
				spent := float64(processorTime(b) - begin)
				b.ReportMetric(spent/float64(b.N)/n, "cpu-ns/element")
			})
		}
	}
}

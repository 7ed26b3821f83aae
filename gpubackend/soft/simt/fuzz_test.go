// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// fuzzSeeds are bodies of kernels: arithmetic, memory, control flow, calls, textures, surfaces.
var fuzzSeeds = []string{
	"add.s32 %r1, %r2, %r3; mad.wide.s32 %rd1, %r1, 4, %rd2; cvt.rn.f32.s32 %f1, %r1; " +
		"fma.rn.f32 %f1, %f1, %f1, %f2;",
	"ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; ld.global.v2.u32 {%r2, %r3}, [%rd1+8]; " +
		"st.global.u32 [%rd1], %r1; atom.global.add.u32 %r1, [%rd1], 1;",
	"setp.lt.s32 %p1, %r1, 5; @%p1 bra L1; bar.sync 0; " +
		"L1: add.s32 %r1, %r1, 1; @!%p1 bra L1; exit;",
	"mov.u32 %r1, s; st.shared.u32 [s+4], %r1; ld.shared.u32 %r2, [%r1]; " +
		"shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1; vote.sync.ballot.b32 %r1, %p1, -1;",
	"{ .param .b32 x; st.param.b32 [x+0], %r1; call.uni f, (x); }",
	"mov.f32 %f1, 0f3F800000; tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [t, {%f1,%f2}]; " +
		"mov.u64 %rd1, 7; " +
		"tex.level.3d.v4.s32.f32 {%r0,%r1,%r2,%r3}, [%rd1, {%f1,%f2,%f3,%f0}], %f1;",
	"mov.u64 %rd1, 7; tex.grad.a2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%rd1, {%r1,%f2,%f3,%f0}], " +
		"{%f1,%f2}, {%f3,%f1}; tld4.g.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%rd1, {%f1,%f2}]; " +
		"tex.acube.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%rd1, {%r1,%f0,%f1,%f2}];",
	"mov.u64 %rd1, 8; mov.u32 %r1, %tid.x; suld.b.2d.v2.b32.clamp {%r2,%r3}, [%rd1, {%r1,%r1}]; " +
		"sust.b.a2d.b8.zero [u, {%r1,%r2,%r3,%r3}], {%rs1}; txq.width.b32 %r1, [t]; " +
		"suq.height.b32 %r2, [%rd1];",
	"mov.b64 {%r1, %r2}, %rd1; prmt.b32 %r1, %r2, %r3, 0x5410; bfe.u32 %r1, %r2, 3, 4; " +
		"cvta.shared.u64 %rd1, %rd2; ld.u8 %r1, [%rd1];",
}

const fuzzHead = ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 4 .b8 s[64];\n" +
	".global .texref t;\n.global .surfref u;\n" +
	".func f(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; ret; }\n" +
	".visible .entry k(.param .u64 a)\n{\n.reg .pred %p<4>;\n.reg .b16 %rs<4>;\n" +
	".reg .b32 %r<5>;\n.reg .f32 %f<4>;\n" +
	".reg .b64 %rd<5>;\n.reg .f64 %fd<4>;\n.local .align 8 .b8 l[32];\n"

// FuzzRun loads and runs kernels with any body. Whatever it is, it is refused, or the kernel ends,
// with a fault or without, or at the deadline.
func FuzzRun(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed)
	}
	for _, in := range readInstructions(f) {
		f.Add(in.text + ";")
	}
	d := newDevice(f, 4<<20)
	buffer := put(d, make([]uint64, 64))
	objects := fuzzObjects(buffer)
	f.Fuzz(func(t *testing.T, body string) {
		runBody(t, d, buffer, objects, body, 20*time.Millisecond)
	})
}

// runBody loads and runs a kernel for at most so long.
func runBody(
	t *testing.T, d *device, buffer uint64, objects *someObjects, body string, most time.Duration,
) {
	t.Helper()
	m, err := ptx.Parse([]byte(fuzzHead+body+"\nret;\n}\n"), nil)
	if err != nil {
		return
	}
	p, err := decoded.Load(m, nil)
	if err != nil {
		var reason *ptx.Error
		if !errors.As(err, &reason) || reason.Line == 0 {
			t.Errorf("error without a line: %v", err)
		}
		return
	}
	if err := p.Link(func(string) (uint64, bool) { return buffer, true }); err != nil ||
		p.Kernel("k") == nil {
		return
	}
	k := p.Kernel("k")
	l := &Launch{Kernel: k, Grid: linear(2), Block: linear(40),
		Params: make([]byte, k.ParamSize), Memory: d, Heap: d.heap}
	l.Objects, l.Bindings = objects,
		[]Binding{{Texture: objects.texture}, {Surface: objects.surface}}
	if k.ParamSize == 8 {
		binary.LittleEndian.PutUint64(l.Params, buffer)
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	err = l.Run(ctx)
	var fault *KernelError
	if err != nil && !errors.As(err, &fault) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unexpected error %v", err)
	}
}

// someObjects are a texture with number 7 and a surface with number 8.
type someObjects struct {
	texture *sampler.Texture
	surface *sampler.Surface
}

func (o *someObjects) Texture(number uint64) *sampler.Texture {
	if number == 7 {
		return o.texture
	}
	return nil
}

func (o *someObjects) Surface(number uint64) *sampler.Surface {
	if number == 8 {
		return o.surface
	}
	return nil
}

// fuzzObjects use 512 bytes at base: a volume with two levels, of which the second has fewer
// planes.
func fuzzObjects(base uint64) *someObjects {
	levels := []sampler.Texels{
		{Base: base, Width: 4, Height: 4, Depth: 4, Pitch: 16, Slice: 64},
		{Base: base + 256, Width: 2, Height: 2, Depth: 2, Pitch: 8, Slice: 16},
	}
	return &someObjects{
		&sampler.Texture{Format: sampler.FormatFloat, Channels: 1, Levels: levels, Linear: true,
			LinearLevels: true,
			MaxLevel:     9, LevelBias: 0.25},
		&sampler.Surface{Texels: levels[0], Texel: 4},
	}
}

// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func TestCopyInAndOut(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		busy bool
	}{
		{"small", 100, false}, {"large", 1 << 20, false}, {"small behind work", 100, true},
		{"large behind work", 1 << 20, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			a := alloc(t, d, uint64(c.size))
			open := func() {}
			if c.busy {
				open = gate(t, d, 0)
			}
			src := pattern(c.size)
			ok(t, d.CopyIn(a, src, 0))
			clear(src) // the caller may change it
			if c.busy {
				want(t, d.StreamQuery(0), gpubackend.NotReady)
			}
			open()
			synchronize(t, d)
			if !bytes.Equal(read(t, d, a, uint64(c.size)), pattern(c.size)) {
				t.Error("content differs")
			}
		})
	}
}

func TestCopyBounds(t *testing.T) {
	d := newDevice(t, Options{})
	a, b := alloc(t, d, 1000), alloc(t, d, 1000)
	for _, c := range []struct {
		name        string
		dst, src, n uint64
		want        gpubackend.Result
	}{
		{"whole", a, b, 1000, gpubackend.Success}, {"nothing", 1, 2, 0, gpubackend.Success},
		{"past destination", a + 1, b, 1000, gpubackend.InvalidValue},
		{"past source", a, b, 1001, gpubackend.InvalidValue},
		{"null", 0, b, 1, gpubackend.InvalidValue}, {"from null", a, 0, 1, gpubackend.InvalidValue},
		{"wrapping", a, b, 1<<64 - 1, gpubackend.InvalidValue},
		{"last byte", a + 999, b + 999, 1, gpubackend.Success},
	} {
		if got := d.MemcpyDtoDAsync(c.dst, c.src, c.n, 0); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	want(t, d.CopyIn(a, make([]byte, 1001), 0), gpubackend.InvalidValue)
	want(t, d.CopyOut(make([]byte, 1001), a), gpubackend.InvalidValue)
	want(t, d.Copy(a, b, 1, 12345), gpubackend.InvalidHandle)
	want(t, d.Copy(a, b, 0, 12345), gpubackend.InvalidHandle)
	ok(t, d.CopyOut(nil, 0))
	ok(t, d.CopyIn(0, nil, 0))
}

func TestFill(t *testing.T) {
	d := newDevice(t, Options{})
	a := alloc(t, d, 1<<20)
	type result = gpubackend.Result
	for _, c := range []struct {
		name string
		fill func() result
		at   uint64
		want []byte
	}{
		{"bytes", func() result { return d.MemsetD8Async(a+3, 0x1ab, 5, 0) }, 3,
			bytes.Repeat([]byte{0xab}, 5)},
		{
			"halves", func() result { return d.MemsetD16Async(a+64, 0x51234, 2, 0) },
			64, []byte{0x34, 0x12, 0x34, 0x12},
		},
		{
			"words", func() result { return d.MemsetD32Async(a+128, 0x12345678, 2, 0) },
			128, words(0x12345678, 0x12345678),
		},
		{
			"rows", func() result { return d.MemsetD2D8Async(a+256, 4, 9, 2, 3, 0) },
			256, []byte{9, 9, 0, 0, 9, 9, 0, 0, 9, 9, 0},
		},
		{
			"rows of halves",
			func() result { return d.MemsetD2D16Async(a+512, 4, 0x0201, 1, 2, 0) },
			512, []byte{1, 2, 0, 0, 1, 2, 0},
		},
		{"rows of words", func() result { return d.MemsetD2D32Async(a+768, 4, 1, 1, 3, 0) }, 768,
			words(1, 1, 1, 0)},
		{
			"large", func() result { return d.MemsetD32Async(a+1024, 7, 200000, 0) },
			1024, bytes.Repeat(words(7), 200000),
		},
		{"none", func() result { return d.MemsetD8Async(0, 1, 0, 0) }, 0, []byte{0}},
		{"one row", func() result { return d.MemsetD2D8Async(a+1000, 0, 5, 3, 1, 0) }, 1000,
			[]byte{5, 5, 5}},
	} {
		ok(t, c.fill())
		synchronize(t, d)
		if got := read(t, d, a+c.at, uint64(len(c.want))); !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x", c.name, got[:min(len(got), 32)])
		}
	}
	for _, c := range []struct {
		name string
		fill func() result
	}{
		{"half not aligned", func() result { return d.MemsetD16Async(a+1, 0, 1, 0) }},
		{"word not aligned", func() result { return d.MemsetD32Async(a+2, 0, 1, 0) }},
		{"pitch not aligned", func() result { return d.MemsetD2D32Async(a, 6, 0, 1, 2, 0) }},
		{"pitch below width", func() result { return d.MemsetD2D8Async(a, 3, 0, 4, 2, 0) }},
		{"past the end", func() result { return d.MemsetD8Async(a, 0, 1<<20+1, 0) }},
		{"last row past the end", func() result { return d.MemsetD2D8Async(a, 1<<19, 0, 1, 3, 0) }},
		{"width wraps", func() result { return d.MemsetD32Async(a, 0, 1<<62+1, 0) }},
		{"height wraps", func() result { return d.MemsetD2D8Async(a, 1<<33, 0, 1, 1<<33, 0) }},
		{"null", func() result { return d.MemsetD8Async(0, 0, 1, 0) }},
	} {
		if got := c.fill(); got != gpubackend.InvalidValue {
			t.Errorf("%s: %d", c.name, got)
		}
	}
}

// slowBox copies a box byte by byte.
func slowBox(dst, src []byte, b gpubackend.Box) {
	for z := range b.Depth {
		for y := range b.Height {
			for x := range b.Width {
				dst[b.Dst+z*b.DstSlice+y*b.DstPitch+x] = src[b.Src+z*b.SrcSlice+y*b.SrcPitch+x]
			}
		}
	}
}

func TestCopyBoxAgreesWithSlowBox(t *testing.T) {
	const size = 1 << 16
	random := rand.New(rand.NewPCG(1, 3))
	d := newDevice(t, Options{})
	dst, src := alloc(t, d, size), alloc(t, d, size)
	from := pattern(size)
	ok(t, d.CopyIn(src, from, 0))
	for range 200 {
		b := gpubackend.Box{Width: random.Uint64N(20) + 1, Height: random.Uint64N(8) + 1,
			Depth: random.Uint64N(4) + 1}
		b.DstPitch, b.SrcPitch = b.Width+random.Uint64N(9), b.Width+random.Uint64N(9)
		b.DstSlice, b.SrcSlice = b.DstPitch*b.Height+random.Uint64N(9),
			b.SrcPitch*b.Height+random.Uint64N(9)
		b.Dst, b.Src = random.Uint64N(1000), random.Uint64N(1000)
		expected := make([]byte, size)
		slowBox(expected, from, b)
		b.Dst, b.Src = b.Dst+dst, b.Src+src
		ok(t, d.MemsetD8Async(dst, 0, size, 0))
		ok(t, d.CopyBox(&b, 0))
		synchronize(t, d)
		if !bytes.Equal(read(t, d, dst, size), expected) {
			t.Fatalf("%+v differs", b)
		}
	}
}

func TestCopyBoxRefuses(t *testing.T) {
	d := newDevice(t, Options{})
	a := alloc(t, d, 1000)
	good := gpubackend.Box{
		Dst: a, Src: a + 500, DstPitch: 10, SrcPitch: 10, DstSlice: 100, SrcSlice: 100, Width: 10,
		Height: 10, Depth: 5,
	}
	ok(t, d.CopyBox(&good, 0))
	for _, c := range []struct {
		name   string
		change func(*gpubackend.Box)
		want   gpubackend.Result
	}{
		{"no width", func(b *gpubackend.Box) { b.Width, b.Dst = 0, 0 }, gpubackend.Success},
		{"no height", func(b *gpubackend.Box) { b.Height, b.Dst = 0, 0 }, gpubackend.Success},
		{"no depth", func(b *gpubackend.Box) { b.Depth, b.Dst = 0, 0 }, gpubackend.Success},
		{"destination pitch", func(b *gpubackend.Box) { b.DstPitch = 9 }, gpubackend.InvalidValue},
		{"source pitch", func(b *gpubackend.Box) { b.SrcPitch = 9 }, gpubackend.InvalidValue},
		{"slice", func(b *gpubackend.Box) { b.SrcSlice = 99 }, gpubackend.InvalidValue},
		{"past the end", func(b *gpubackend.Box) { b.Src++ }, gpubackend.InvalidValue},
		{"wraps", func(b *gpubackend.Box) { b.DstSlice = 1 << 63 }, gpubackend.InvalidValue},
		{"null", func(b *gpubackend.Box) { b.Src = 0 }, gpubackend.InvalidValue},
	} {
		b := good
		c.change(&b)
		if got := d.CopyBox(&b, 0); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

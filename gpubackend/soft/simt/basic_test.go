// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"math"
	"testing"
)

func TestVectorAdd(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	const n = 10000
	a, b := randomFloats(n, -1, 1), randomFloats(n+1, -5, 5)[:n]
	out := put(d, make([]float32, n))
	d.run("vectorAdd", (n+255)/256, 256, put(d, a), put(d, b), out, int32(n))
	want := make([]float32, n)
	for i := range want {
		want[i] = a[i] + b[i]
	}
	equal(t, "c", get[float32](d, out, n), want)
}

func TestMatmul(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	const n = 64
	a, b := randomFloats(n*n, -1, 1), randomFloats(n*n+1, -1, 1)[:n*n]
	out := put(d, make([]float32, n*n))
	l := d.launch("matmul", Dim{n / 16, n / 16, 1}, Dim{16, 16, 1}, put(d, a), put(d, b), out,
		int32(n))
	if err := l.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := make([]float32, n*n)
	for i := range n {
		for j := range n {
			var sum float32
			for k := range n {
				sum = fmaOracle(a[i*n+k], b[k*n+j], sum)
			}
			want[i*n+j] = sum
		}
	}
	equal(t, "c", get[float32](d, out, n*n), want)
}

func TestReduceShuffle(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	const n = 12345
	in := randomInts(n, 1000)
	var want int32
	for _, v := range in {
		want += v
	}
	out := put(d, []int32{0})
	d.run("reduceShuffle", 8, 256, put(d, in), out, int32(n))
	equal(t, "sum", get[int32](d, out, 1), []int32{want})
}

func TestScanBlock(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	const n, blocks = 256, 5
	in := randomInts(n*blocks, 1000)
	out := put(d, make([]int32, n*blocks))
	l := d.launch("scanBlock", linear(blocks), linear(n), put(d, in), out)
	l.SharedBytes = 2 * n * 4
	if err := l.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := make([]int32, n*blocks)
	for i := range want {
		want[i] = in[i]
		if i%n > 0 {
			want[i] += want[i-1]
		}
	}
	equal(t, "scan", get[int32](d, out, n*blocks), want)
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	const n = 20000
	in := make([]uint8, n)
	want := make([]uint32, 256)
	for i, v := range randomInts(n, 256) {
		in[i] = uint8(v)
		want[v]++
	}
	bins := put(d, make([]uint32, 256))
	d.run("histogram", 6, 192, put(d, in), bins, int32(n))
	equal(t, "bins", get[uint32](d, bins, 256), want)
}

func TestStencil(t *testing.T) {
	t.Parallel()
	d := newTest(t, "basic")
	const n = 1000
	in := randomFloats(n, 0, 1)
	out := put(d, make([]float32, n))
	d.run("stencil", 4, 256, put(d, in), out, int32(n))
	got := get[float32](d, out, n)
	for i := range got {
		want := 0.0
		for k, w := range []float64{0.1, 0.2, 0.4, 0.2, 0.1} {
			want += w * float64(in[min(max(i+k-2, 0), n-1)])
		}
		if math.Abs(float64(got[i])-want) > 1e-6 {
			t.Fatalf("out[%d] = %v, want %v", i, got[i], want)
		}
	}
	for _, g := range d.prog.Globals() {
		if g.Name == "calls" {
			equal(t, "calls", get[int32](d, d.prog.Addresses[g.Variable], 1), []int32{8})
		}
	}
}

// fmaOracle is a*b+c rounded once, by exact arithmetic.
func fmaOracle(a, b, c float32) float32 {
	return exactFma(float64(a), float64(b), float64(c))
}

// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func TestGridSync(t *testing.T) {
	t.Parallel()
	d := newTest(t, "coop")
	const n = 500
	a := put(d, make([]int32, 6*n))
	l := d.launch("gridSync", linear(16), linear(32), a, int32(n))
	// A launch that isn't cooperative can't synchronise its grid.
	wantFault(t, l, cudaabi.ErrorLaunchFailed)
	l.Cooperative = true
	if err := l.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := make([]int32, n)
	for i := range want {
		want[i] = 5
	}
	equal(t, "a", get[int32](d, a+5*n*4, n), want)
}

func TestTiles(t *testing.T) {
	t.Parallel()
	d := newTest(t, "coop")
	const n = 96
	in := randomInts(n, 100)
	want := make([]int32, n)
	for i, v := range in {
		var sum, prefix, odd, rank int32
		for k := i / 8 * 8; k < i/8*8+8; k++ {
			sum += in[k]
			if k <= i {
				prefix += in[k]
			}
		}
		for k := i / 32 * 32; k < i/32*32+32; k++ {
			odd += in[k] & 1
			if k < i {
				rank += in[k] & 1
			}
		}
		if v&1 != 0 {
			sum += odd*1000 + rank*100000
		}
		want[i] = sum*7 + prefix
	}
	out := put(d, make([]int32, n))
	d.run("tiles", 1, n, put(d, in), out)
	equal(t, "out", get[int32](d, out, n), want)
}

func TestPipeline(t *testing.T) {
	t.Parallel()
	d := newTest(t, "coop")
	in := randomInts(256, 1000)
	want := make([]int32, 64)
	for i := range want {
		want[i] = in[(63-i)*4+1] + 3
	}
	out := put(d, make([]int32, 64))
	d.run("pipeline", 1, 64, put(d, in), out)
	equal(t, "out", get[int32](d, out, 64), want)
}

func TestAtomicRefs(t *testing.T) {
	t.Parallel()
	d := newTest(t, "coop")
	p, q, f := put(d, []int32{0}), put(d, []uint64{0}), put(d, []float32{0})
	l := d.launch("atomicRefs", linear(8), linear(64), p, q, f)
	l.Cooperative = true
	if err := l.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	equal(t, "p", get[int32](d, p, 1), []int32{512})
	equal(t, "q", get[uint64](d, q, 1), []uint64{63})
	equal(t, "f", get[float32](d, f, 1), []float32{512})
}

func TestWords(t *testing.T) {
	t.Parallel()
	d := newTest(t, "coop")
	a, b := []uint32{0x01ff7f80, 0xffffffff, 0}, []uint32{0x0102ff80, 0x01010101, 0x80007fff}
	out := put(d, make([]uint32, 12))
	d.run("words", 1, 3, put(d, a), put(d, b), out)
	equal(t, "out", get[uint32](d, out, 12), []uint32{
		0x02017e00, 0x00fd8000, 0xfd + 0x80, 0x01ff7f80,
		0x00000000, 0xfefefefe, 0xfe * 4, 0x01010101,
		0x80007fff, 0x80007fff, 0x80 + 0x7f + 0xff, 0x00007fff})
}

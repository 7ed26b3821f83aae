// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

func TestAtomicsInt(t *testing.T) {
	t.Parallel()
	d := newTest(t, "atomics")
	const blocks, threads = 10, 64
	const n = blocks * threads
	ints := put(d, []int32{0, 0, 0, 0, -1, 0, 0, 0})
	uints := put(d, []uint32{0, 0, 50, 1 << 30, 0, 0})
	longs := put(d, []uint64{0, 1 << 60, 0, ^uint64(0), 0, 0, 0, 0})
	slongs := put(d, []int64{-5000, 5000})
	d.run("atomicsInt", blocks, threads, ints, uints, longs, slongs)
	var sum, xor int32
	var lsum, lxor uint64
	inc, dec := uint32(0), uint32(50)
	for i := range n {
		sum += int32(i)
		xor ^= int32(i)
		lsum += uint64(i) << 20
		lxor ^= uint64(i) << 32
		if inc++; inc > 100 {
			inc = 0
		}
		if dec--; dec > 100 {
			dec = 100
		}
	}
	equal(t, "i", get[int32](d, ints, 8),
		[]int32{sum, -sum, -(n - 1), n - 1, ^0xffff, 0xffff, xor, 2 * n})
	equal(t, "u", get[uint32](d, uints, 6), []uint32{uint32(sum), inc, dec, 0, n - 1, 77})
	equal(t, "l", get[uint64](d, longs, 8),
		[]uint64{lsum, 5, (n - 1) << 40, 0, ^uint64(0), lxor, 3 * n, 99})
	equal(t, "sl", get[int64](d, slongs, 2), []int64{n - 1 - 1000, -1000})
}

func TestAtomicsFloat(t *testing.T) {
	t.Parallel()
	d := newTest(t, "atomics")
	const blocks, threads = 8, 64
	const n = blocks * threads
	f, g := put(d, make([]float32, 3)), put(d, make([]float64, 2))
	h2, h, s := put(d, make([]uint16, 2)), put(d, make([]uint16, 2)), put(d, make([]uint16, 2))
	d.run("atomicsFloat", blocks, threads, f, g, h2, h, s, int32(n))
	equal(t, "f", get[float32](d, f, 3), []float32{n * 0.5, 3, n})
	equal(t, "d", get[float64](d, g, 2), []float64{n * 0.25, n * 2})
	half := func(x float64) uint16 { return uint16(softfloat.Half.Encode(x, softfloat.Nearest)) }
	equal(t, "h2", get[uint16](d, h2, 2), []uint16{half(n), half(n / 2)})
	equal(t, "h", get[uint16](d, h, 2), []uint16{half(n), 0})
	equal(t, "s", get[uint16](d, s, 2), []uint16{0, n})
}

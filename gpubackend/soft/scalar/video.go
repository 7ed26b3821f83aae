// SPDX-License-Identifier: Apache-2.0

package scalar

import "github.com/paracuda/paracuda/gpubackend/soft/ptx"

// subword is the lowest element of n bits.
func subword(x uint64, n uint, t ptx.Type) int64 {
	if t.Signed() {
		return int64(x<<(64-n)) >> (64 - n)
	}
	return int64(x & (1<<n - 1))
}

func videoClamp(r int64, n uint, t ptx.Type) int64 {
	if t.Signed() {
		return max(min(r, 1<<(n-1)-1), -1<<(n-1))
	}
	return max(min(r, 1<<n-1), 0)
}

func videoElement(op string) func(a, b int64) int64 {
	switch op {
	case "vadd":
		return func(a, b int64) int64 { return a + b }
	case "vsub":
		return func(a, b int64) int64 { return a - b }
	case "vavrg":
		// The average is rounded away from zero.
		return func(a, b int64) int64 {
			sum := a + b
			if sum < 0 {
				return -((1 - sum) >> 1)
			}
			return (sum + 1) >> 1
		}
	case "vabsdiff":
		return func(a, b int64) int64 { return max(a-b, b-a) }
	case "vmin":
		return func(a, b int64) int64 { return min(a, b) }
	case "vmax":
		return func(a, b int64) int64 { return max(a, b) }
	}
	return nil
}

// Video is a SIMD video instruction on all elements of n bits, whose result and sources are of
// types; nil if there is none. add gives the sum of the elements and c.
func Video(op string, n uint, types [3]ptx.Type, sat, add bool) Func {
	element := videoElement(op)
	if element == nil {
		return nil
	}
	return func(a, b, c uint64) uint64 {
		var sum, packed uint64
		for shift := uint(0); shift < 32; shift += n {
			r := element(subword(a>>shift, n, types[1]), subword(b>>shift, n, types[2]))
			if sat {
				r = videoClamp(r, n, types[0])
			}
			sum += uint64(r)
			packed |= uint64(r) & (1<<n - 1) << shift
		}
		if add {
			return sum + c
		}
		return packed
	}
}

// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"strings"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// decodeVideo decodes the SIMD video instructions: vadd2, vsub4, vabsdiff4 and
// so on, on all elements.
func decodeVideo(d *decoder, in *ptx.Inst, m *modifiers) error {
	op := strings.TrimRight(in.Op, "24")
	n := uint(16)
	if strings.HasSuffix(in.Op, "4") {
		n = 8
	}
	sat, add := m.has("sat"), m.has("add")
	dt, at, bt := m.typ(), m.typ(), m.typ()
	for _, t := range []ptx.Type{dt, at, bt} {
		if t != ptx.U32 && t != ptx.S32 {
			return errType
		}
	}
	element := videoElement(op)
	if element == nil || add && sat {
		return errType
	}
	f := func(a, b, c uint64) uint64 {
		var sum, packed uint64
		for shift := uint(0); shift < 32; shift += n {
			r := element(subword(a>>shift, n, at), subword(b>>shift, n, bt))
			if sat {
				r = videoClamp(r, n, dt)
			}
			sum += uint64(r)
			packed |= uint64(r) & (1<<n - 1) << shift
		}
		if add {
			return sum + c
		}
		return packed
	}
	return d.compute("", f, in.Args, ptx.B32, ptx.B32, ptx.B32, ptx.B32)
}

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

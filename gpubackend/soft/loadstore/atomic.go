// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// atomicFunc performs an atomic operation at p and returns the old value. One by compare and swap
// computes the new value by f.
type atomicFunc func(p uintptr, b, c uint64, f scalar.Func) uint64

func atomicAdd32(p uintptr, b, _ uint64, _ scalar.Func) uint64 {
	return uint64(add32(p,
		uint32(b)))
}

func atomicAdd64(p uintptr, b, _ uint64, _ scalar.Func) uint64 { return add64(p, b) }

func atomicSwap32(p uintptr, b, _ uint64, _ scalar.Func) uint64 {
	return uint64(swap32(p, uint32(b)))
}

func atomicSwap64(p uintptr, b, _ uint64, _ scalar.Func) uint64 { return swap64(p, b) }

func atomicUpdate32(p uintptr, b, c uint64, f scalar.Func) uint64 {
	for {
		old := load32(p)
		if value := uint32(f(uint64(old), b, c)); value == old || cas32(p, old, value) {
			return uint64(old)
		}
	}
}

func atomicUpdate64(p uintptr, b, c uint64, f scalar.Func) uint64 {
	for {
		old := load64(p)
		if value := f(old, b, c); value == old || cas64(p, old, value) {
			return old
		}
	}
}

// atomicUpdate16 works on the 32-bit word around p.
func atomicUpdate16(p uintptr, b, c uint64, f scalar.Func) uint64 {
	word, shift := p&^3, uint(p&2)*8
	for {
		old := load32(word)
		half := uint64(uint16(old >> shift))
		value := old&^(0xffff<<shift) | uint32(uint16(f(half, b, c)))<<shift
		if value == old || cas32(word, old, value) {
			return half
		}
	}
}

// atomically performs an operation for one lane after the other.
func atomically(perform atomicFunc) Func {
	return func(u *Unit, in *decoded.Inst, m uint32) { u.atomic(in, m, perform) }
}

func (u *Unit) atomic(in *decoded.Inst, m uint32, perform atomicFunc) {
	var p Addresses
	var b, c, r [lanes.Count]uint64
	if !u.locate(in, m, uint64(in.Mem.Size), true, &p) {
		return
	}
	u.Load(in.B, in.BW, &b)
	u.Load(in.C, in.CW, &c)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		r[i] = perform(p[i], b[i], c[i], in.More.Scalar)
	}
	u.Store(in.D, in.DW, &r, m)
}

// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"math/bits"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// The functions below execute the commonest loads and stores: one element per
// lane, in global memory inside the range that was accessed last, or in shared
// memory. They check all lanes first and leave everything else, faults
// included, to the general versions.

type memType interface {
	uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32
}

type regType interface{ uint16 | uint32 | uint64 }

// inRange tells whether accesses of n bytes at the lanes' addresses are all
// aligned and inside size bytes at base.
func inRange[A uint32 | uint64](addr *[lanes.Count]A, off, base, size, n A, m uint32) bool {
	if size < n {
		return false
	}
	off -= base
	last := size - n
	var bad A
	var low A
	if m == lanes.All {
		for i := range addr {
			at := addr[i] + off
			low |= at
			if at > last {
				bad = 1
			}
		}
	} else {
		for s := m; s != 0; s &= s - 1 {
			at := addr[bits.TrailingZeros32(s)&(lanes.Count-1)] + off
			low |= at
			if at > last {
				bad = 1
			}
		}
	}
	return bad == 0 && (low|base)&(n-1) == 0
}

// consecutive tells whether the lanes' addresses are n apart.
func consecutive[A uint32 | uint64](addr *[lanes.Count]A, n A) bool {
	if useAVX {
		if unsafe.Sizeof(n) == 4 {
			// SAFETY: A has 4 bytes here, and 8 below.
			return consecutive32AVX((*[lanes.Count]uint32)(unsafe.Pointer(addr)), uint32(n))
		}
		return consecutive64AVX((*[lanes.Count]uint64)(unsafe.Pointer(addr)), uint64(n))
	}
	var off A
	want := addr[0]
	for i := range addr {
		off |= addr[i] ^ want
		want += n
	}
	return off == 0
}

// spans tells whether all lanes access consecutive elements of n bytes, aligned
// and inside size bytes at base.
func spans[A uint32 | uint64](addr *[lanes.Count]A, off, base, size, n A, m uint32) bool {
	if m != lanes.All || (addr[0]+off)&(n-1) != 0 {
		return false
	}
	first := addr[0] + off - base
	return size >= lanes.Count*n && first <= size-lanes.Count*n && consecutive(addr, n)
}

// locateFast is locateAt for accesses that all fall into the range accessed last,
// or into the block's shared or the threads' local memory. It reports false for
// all others.
func (u *Unit) locateFast(
	a uint32, aw lanes.Width, off uint64, space ptx.Space, m uint32, n uint64, write bool,
	p *Addresses,
) bool {
	var base, step uintptr
	last := Range{Size: u.SharedSize, Writable: true}
	switch space {
	case ptx.Shared:
		base = u.Shared
	case ptx.Local:
		base, step, last.Size = u.LocalBase, uintptr(u.LocalStride), u.LocalStride
	case ptx.Param:
		return false
	default:
		last = u.Cache.last
	}
	if write && !last.Writable {
		return false
	}
	if aw == lanes.Width32 && space == ptx.Shared {
		addr := u.U32(a)
		if !inRange(addr, uint32(off), 0, uint32(last.Size), uint32(n), m) {
			return false
		}
		for i, x := range addr {
			p[i] = base + uintptr(x+uint32(off))
		}
		return true
	}
	if aw != lanes.Width64 || !inRange(u.U64(a), off, last.Base, last.Size, n, m) {
		return false
	}
	for i, x := range u.U64(a) {
		p[i] = base + uintptr(i)*step + uintptr(x+off)
	}
	return true
}

// moveIn reads the lanes' elements at base + addr + off, and moveOut writes
// them.
func moveIn[M memType, R regType, A uint32 | uint64](
	base uintptr, addr *[lanes.Count]A, off A, d *[lanes.Count]R, m uint32,
) {
	if m != lanes.All {
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes.Count - 1)
			d[i] = R(*(*M)(at(base + uintptr(addr[i]+off))))
		}
		return
	}
	for i := range d {
		d[i] = R(*(*M)(at(base + uintptr(addr[i]+off))))
	}
}

func moveOut[M memType, R regType, A uint32 | uint64](
	base uintptr, addr *[lanes.Count]A, off A, v *[lanes.Count]R, m uint32,
) {
	if m != lanes.All {
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes.Count - 1)
			*(*M)(at(base + uintptr(addr[i]+off))) = M(v[i])
		}
		return
	}
	for i := range v {
		*(*M)(at(base + uintptr(addr[i]+off))) = M(v[i])
	}
}

func loadGlobal[M memType, R regType](u *Unit, in *decoded.Inst, m uint32) {
	addr, last, n := u.U64(in.A), &u.Cache.last, uint64(unsafe.Sizeof(M(0)))
again:
	if n == uint64(unsafe.Sizeof(R(0))) && spans(addr, in.Imm, last.Base, last.Size, n, m) {
		// SAFETY: the span has been checked.
		*lanes.Of[R](u.Registers, in.D) = *(*[lanes.Count]R)(at(uintptr(addr[0] + in.Imm)))
		return
	}
	if !inRange(addr, in.Imm, last.Base, last.Size, n, m) {
		if u.turn(in, m) {
			goto again
		}
		execLoad(u, in, m)
		return
	}
	moveIn[M](0, addr, in.Imm, lanes.Of[R](u.Registers, in.D), m)
}

func storeGlobal[M memType, R regType](u *Unit, in *decoded.Inst, m uint32) {
	addr, last, n := u.U64(in.A), &u.Cache.last, uint64(unsafe.Sizeof(M(0)))
again:
	if n == uint64(unsafe.Sizeof(R(0))) && last.Writable &&
		spans(addr, in.Imm, last.Base, last.Size, n, m) {
		// SAFETY: the span has been checked.
		*(*[lanes.Count]R)(at(uintptr(addr[0] + in.Imm))) = *lanes.Of[R](u.Registers, in.B)
		return
	}
	if !last.Writable || !inRange(addr, in.Imm, last.Base, last.Size, n, m) {
		if u.turn(in, m) {
			goto again
		}
		execStore(u, in, m)
		return
	}
	moveOut[M](0, addr, in.Imm, lanes.Of[R](u.Registers, in.B), m)
}

// turn makes the range that the first lane accesses the one that was accessed last. It returns
// false if it already was, or if there is no such range.
func (u *Unit) turn(in *decoded.Inst, m uint32) bool {
	at, c := u.U64(in.A)[lanes.First(m)&(lanes.Count-1)]+in.Imm, u.Cache
	return at-c.last.Base >= c.last.Size && c.find(at, 1)
}

func loadShared[M memType, R regType, A uint32 | uint64](u *Unit, in *decoded.Inst, m uint32) {
	addr, size, n := lanes.Of[A](u.Registers, in.A), A(u.SharedSize),
		A(unsafe.Sizeof(M(0)))
	if n == A(unsafe.Sizeof(R(0))) && spans(addr, A(in.Imm), 0, size, n, m) {
		// SAFETY: the span has been checked.
		*lanes.Of[R](u.Registers,
			in.D) = *(*[lanes.Count]R)(at(u.Shared + uintptr(addr[0]+A(in.Imm))))
		return
	}
	if !inRange(addr, A(in.Imm), 0, size, n, m) {
		execLoad(u, in, m)
		return
	}
	moveIn[M](u.Shared, addr, A(in.Imm), lanes.Of[R](u.Registers, in.D), m)
}

func storeShared[M memType, R regType, A uint32 | uint64](u *Unit, in *decoded.Inst, m uint32) {
	addr, size, n := lanes.Of[A](u.Registers, in.A), A(u.SharedSize),
		A(unsafe.Sizeof(M(0)))
	if n == A(unsafe.Sizeof(R(0))) && spans(addr, A(in.Imm), 0, size, n, m) {
		// SAFETY: the span has been checked.
		to := (*[lanes.Count]R)(at(u.Shared + uintptr(addr[0]+A(in.Imm))))
		*to = *lanes.Of[R](u.Registers, in.B)
		return
	}
	if !inRange(addr, A(in.Imm), 0, size, n, m) {
		execStore(u, in, m)
		return
	}
	moveOut[M](u.Shared, addr, A(in.Imm), lanes.Of[R](u.Registers, in.B), m)
}

// loadSharedWords is loadShared for words with the help of gather32AVX.
func loadSharedWords(u *Unit, in *decoded.Inst, m uint32) {
	addr, off, size := u.U32(in.A), uint32(in.Imm), uint32(u.SharedSize)
	switch {
	case spans(addr, off, 0, size, 4, m):
		// SAFETY: the span has been checked.
		*u.U32(in.D) = *(*[lanes.Count]uint32)(at(u.Shared + uintptr(addr[0]+off)))
	case m != lanes.All || size < 4 ||
		!gather32AVX(u.U32(in.D), addr, u.Shared, off, size-4):
		loadShared[uint32, uint32, uint32](u, in, m)
	}
}

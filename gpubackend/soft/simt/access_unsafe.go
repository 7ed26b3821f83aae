// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"
	"unsafe"

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

// fastAccess returns a faster version of a memory instruction, or nil.
func fastAccess(in *inst, store bool) execFunc {
	if in.more != nil || in.mem.count != 1 || in.mem.spin {
		return nil
	}
	reg := in.dw
	if store {
		reg = in.bw
	}
	switch {
	case in.mem.space == ptx.Shared:
		if in.aw == width32 {
			return accessOf[uint32](in, reg, store, true)
		}
		return accessOf[uint64](in, reg, store, true)
	case in.aw == width64 && (in.mem.space == ptx.Global || in.mem.space == ptx.Generic || in.mem.space == ptx.Const):
		return accessOf[uint64](in, reg, store, false)
	}
	return nil
}

func accessOf[A uint32 | uint64](in *inst, reg width, store, shared bool) execFunc {
	switch {
	case in.mem.size == 4 && reg == width32:
		return chooseAccess[uint32, uint32, A](store, shared)
	case in.mem.size == 8 && reg == width64:
		return chooseAccess[uint64, uint64, A](store, shared)
	case in.mem.size == 2 && reg == width16:
		return chooseAccess[uint16, uint16, A](store, shared)
	case in.mem.size == 1 && reg == width16 && (store || !in.mem.signed):
		return chooseAccess[uint8, uint16, A](store, shared)
	case in.mem.size == 1 && reg == width16:
		return chooseAccess[int8, uint16, A](store, shared)
	case in.mem.size == 1 && reg == width32 && (store || !in.mem.signed):
		return chooseAccess[uint8, uint32, A](store, shared)
	case in.mem.size == 1 && reg == width32:
		return chooseAccess[int8, uint32, A](store, shared)
	}
	return nil
}

func chooseAccess[M memType, R regType, A uint32 | uint64](store, shared bool) execFunc {
	switch {
	case store && shared:
		return storeShared[M, R, A]
	case store:
		return storeGlobal[M, R]
	case shared:
		return loadShared[M, R, A]
	}
	return loadGlobal[M, R]
}

func register[T regType](w *warp, off uint32) *[lanes]T {
	// SAFETY: as for the accessors of warp; the decoder has checked the width.
	return (*[lanes]T)(unsafe.Add(w.regs, uintptr(off)))
}

// inRange tells whether accesses of n bytes at the lanes' addresses are all
// aligned and inside size bytes at base.
func inRange[A uint32 | uint64](addr *[lanes]A, off, base, size, n A, m uint32) bool {
	if size < n {
		return false
	}
	off -= base
	last := size - n
	var bad A
	var low A
	if m == allLanes {
		for i := range addr {
			at := addr[i] + off
			low |= at
			if at > last {
				bad = 1
			}
		}
	} else {
		for s := m; s != 0; s &= s - 1 {
			at := addr[bits.TrailingZeros32(s)&(lanes-1)] + off
			low |= at
			if at > last {
				bad = 1
			}
		}
	}
	return bad == 0 && (low|base)&(n-1) == 0
}

// consecutive tells whether the lanes' addresses are n apart.
func consecutive[A uint32 | uint64](addr *[lanes]A, n A) bool {
	var off A
	want := addr[0]
	for i := range addr {
		off |= addr[i] ^ want
		want += n
	}
	return off == 0
}

// moveIn reads the lanes' elements at base + addr + off, and moveOut writes
// them.
func moveIn[M memType, R regType, A uint32 | uint64](base uintptr, addr *[lanes]A, off A, d *[lanes]R, m uint32) {
	n := A(unsafe.Sizeof(M(0)))
	if m != allLanes {
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes - 1)
			d[i] = R(*(*M)(at(base + uintptr(addr[i]+off))))
		}
		return
	}
	if unsafe.Sizeof(M(0)) == unsafe.Sizeof(R(0)) && consecutive(addr, n) {
		// SAFETY: all elements are inside the range checked, so the span is.
		*d = *(*[lanes]R)(at(base + uintptr(addr[0]+off)))
		return
	}
	for i := range d {
		d[i] = R(*(*M)(at(base + uintptr(addr[i]+off))))
	}
}

func moveOut[M memType, R regType, A uint32 | uint64](base uintptr, addr *[lanes]A, off A, v *[lanes]R, m uint32) {
	n := A(unsafe.Sizeof(M(0)))
	if m != allLanes {
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes - 1)
			*(*M)(at(base + uintptr(addr[i]+off))) = M(v[i])
		}
		return
	}
	if unsafe.Sizeof(M(0)) == unsafe.Sizeof(R(0)) && consecutive(addr, n) {
		// SAFETY: all elements are inside the range checked, so the span is.
		*(*[lanes]R)(at(base + uintptr(addr[0]+off))) = *v
		return
	}
	for i := range v {
		*(*M)(at(base + uintptr(addr[i]+off))) = M(v[i])
	}
}

func loadGlobal[M memType, R regType](w *warp, in *inst, m uint32) {
	addr, last := w.u64(in.a), &w.cache.last
	if !inRange(addr, in.imm, last.base, last.size, uint64(unsafe.Sizeof(M(0))), m) {
		execLoad(w, in, m)
		return
	}
	moveIn[M](0, addr, in.imm, register[R](w, in.d), m)
}

func storeGlobal[M memType, R regType](w *warp, in *inst, m uint32) {
	addr, last := w.u64(in.a), &w.cache.last
	if !last.writable || !inRange(addr, in.imm, last.base, last.size, uint64(unsafe.Sizeof(M(0))), m) {
		execStore(w, in, m)
		return
	}
	moveOut[M](0, addr, in.imm, register[R](w, in.b), m)
}

// addressRegister is a register of addresses of type A.
func addressRegister[A uint32 | uint64](w *warp, off uint32) *[lanes]A {
	// SAFETY: as for register.
	return (*[lanes]A)(unsafe.Add(w.regs, uintptr(off)))
}

func loadShared[M memType, R regType, A uint32 | uint64](w *warp, in *inst, m uint32) {
	addr := addressRegister[A](w, in.a)
	if !inRange(addr, A(in.imm), 0, A(w.block.run.sharedSize), A(unsafe.Sizeof(M(0))), m) {
		execLoad(w, in, m)
		return
	}
	moveIn[M](w.block.sharedBase, addr, A(in.imm), register[R](w, in.d), m)
}

func storeShared[M memType, R regType, A uint32 | uint64](w *warp, in *inst, m uint32) {
	addr := addressRegister[A](w, in.a)
	if !inRange(addr, A(in.imm), 0, A(w.block.run.sharedSize), A(unsafe.Sizeof(M(0))), m) {
		execStore(w, in, m)
		return
	}
	moveOut[M](w.block.sharedBase, addr, A(in.imm), register[R](w, in.b), m)
}

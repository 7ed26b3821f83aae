// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"math/bits"
	"unsafe"
)

// Registers are those of a frame.
type Registers struct{ start unsafe.Pointer }

// NewRegisters makes registers of size bytes. The slice keeps them alive.
func NewRegisters(size int) ([]uint64, Registers) {
	slab, start := NewSlab(size)
	return slab, Registers{start}
}

// Of is a register with elements of any type of its width.
func Of[T uint16 | uint32 | uint64](r Registers, off uint32) *[Count]T {
	// SAFETY: as below; the decoder has checked the width.
	return (*[Count]T)(unsafe.Add(r.start, uintptr(off)))
}

// The accessors below reach a register of the current frame. Offsets are made by the decoder's
// allocator, which keeps each register inside the frame and aligned to its size; a frame is
// allocated with that size by NewRegisters.

func (r Registers) Pred(off uint32) *uint32 {
	// SAFETY: see above.
	return (*uint32)(unsafe.Add(r.start, uintptr(off)))
}

func (r Registers) U16(off uint32) *[Count]uint16 {
	// SAFETY: see above.
	return (*[Count]uint16)(unsafe.Add(r.start, uintptr(off)))
}

func (r Registers) U32(off uint32) *[Count]uint32 {
	// SAFETY: see above.
	return (*[Count]uint32)(unsafe.Add(r.start, uintptr(off)))
}

func (r Registers) U64(off uint32) *[Count]uint64 {
	// SAFETY: see above.
	return (*[Count]uint64)(unsafe.Add(r.start, uintptr(off)))
}

func (r Registers) S32(off uint32) *[Count]int32 {
	// SAFETY: see above.
	return (*[Count]int32)(unsafe.Add(r.start, uintptr(off)))
}

func (r Registers) S64(off uint32) *[Count]int64 {
	// SAFETY: see above.
	return (*[Count]int64)(unsafe.Add(r.start, uintptr(off)))
}

func (r Registers) F32(off uint32) *[Count]float32 {
	// SAFETY: see above.
	return (*[Count]float32)(unsafe.Add(r.start, uintptr(off)))
}

func (r Registers) F64(off uint32) *[Count]float64 {
	// SAFETY: see above.
	return (*[Count]float64)(unsafe.Add(r.start, uintptr(off)))
}

// SlabAlign keeps registers on cache lines.
const SlabAlign = 64

// NewSlab returns zeroed memory of size bytes, aligned to SlabAlign. The slice
// keeps it alive.
func NewSlab(size int) ([]uint64, unsafe.Pointer) {
	slab := make([]uint64, (size+SlabAlign)/8+1)
	// SAFETY: the slice has SlabAlign bytes more than are used.
	start := unsafe.Pointer(&slab[0])
	skip := -uintptr(start) & (SlabAlign - 1)
	return slab, unsafe.Add(start, skip)
}

// Load widens the lanes of a register into v.
func (r Registers) Load(off uint32, wd Width, v *[Count]uint64) {
	switch wd {
	case Width32:
		for i, x := range r.U32(off) {
			v[i] = uint64(x)
		}
	case Width64:
		*v = *r.U64(off)
	case Width16:
		for i, x := range r.U16(off) {
			v[i] = uint64(x)
		}
	case WidthPred:
		p := *r.Pred(off)
		for i := range v {
			v[i] = uint64(p >> i & 1)
		}
	}
}

// Store narrows the lanes of v in mask m into a register.
func (r Registers) Store(off uint32, wd Width, v *[Count]uint64, m uint32) {
	switch wd {
	case Width32:
		storeLanes(r.U32(off), v, m)
	case Width64:
		if m == All {
			*r.U64(off) = *v
			return
		}
		storeLanes(r.U64(off), v, m)
	case Width16:
		storeLanes(r.U16(off), v, m)
	case WidthPred:
		var p uint32
		for i := range v {
			p |= uint32(v[i]&1) << i
		}
		d := r.Pred(off)
		*d = *d&^m | p&m
	}
}

func storeLanes[T uint16 | uint32 | uint64](d *[Count]T, v *[Count]uint64, m uint32) {
	if m == All {
		for i := range d {
			d[i] = T(v[i])
		}
		return
	}
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (Count - 1)
		d[i] = T(v[i])
	}
}

// Fill stores one value into all lanes of m.
func (r Registers) Fill(off uint32, wd Width, value uint64, m uint32) {
	switch wd {
	case Width32:
		fillLanes(r.U32(off), uint32(value), m)
	case Width64:
		fillLanes(r.U64(off), value, m)
	case Width16:
		fillLanes(r.U16(off), uint16(value), m)
	case WidthPred:
		SetPred(r.Pred(off), m, -uint32(value&1))
	}
}

func fillLanes[T uint16 | uint32 | uint64](d *[Count]T, value T, m uint32) {
	if m == All {
		for i := range d {
			d[i] = value
		}
		return
	}
	for s := m; s != 0; s &= s - 1 {
		d[bits.TrailingZeros32(s)&(Count-1)] = value
	}
}

// Lane returns one lane of a register.
func (r Registers) Lane(off uint32, wd Width, i int) uint64 {
	switch wd {
	case Width32:
		return uint64(r.U32(off)[i])
	case Width64:
		return r.U64(off)[i]
	case Width16:
		return uint64(r.U16(off)[i])
	}
	return uint64(*r.Pred(off) >> i & 1)
}

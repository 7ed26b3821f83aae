// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"
	"unsafe"
)

// The accessors below reach a register of the current frame. Offsets are made
// by the decoder's allocator, which keeps each register inside the frame and
// aligned to its size; a frame is allocated with that size in newSlab.

func (w *warp) pred(off uint32) *uint32 {
	// SAFETY: see above.
	return (*uint32)(unsafe.Add(w.regs, uintptr(off)))
}

func (w *warp) u16(off uint32) *[lanes]uint16 {
	// SAFETY: see above.
	return (*[lanes]uint16)(unsafe.Add(w.regs, uintptr(off)))
}

func (w *warp) u32(off uint32) *[lanes]uint32 {
	// SAFETY: see above.
	return (*[lanes]uint32)(unsafe.Add(w.regs, uintptr(off)))
}

func (w *warp) u64(off uint32) *[lanes]uint64 {
	// SAFETY: see above.
	return (*[lanes]uint64)(unsafe.Add(w.regs, uintptr(off)))
}

func (w *warp) s32(off uint32) *[lanes]int32 {
	// SAFETY: see above.
	return (*[lanes]int32)(unsafe.Add(w.regs, uintptr(off)))
}

func (w *warp) s64(off uint32) *[lanes]int64 {
	// SAFETY: see above.
	return (*[lanes]int64)(unsafe.Add(w.regs, uintptr(off)))
}

func (w *warp) f32(off uint32) *[lanes]float32 {
	// SAFETY: see above.
	return (*[lanes]float32)(unsafe.Add(w.regs, uintptr(off)))
}

func (w *warp) f64(off uint32) *[lanes]float64 {
	// SAFETY: see above.
	return (*[lanes]float64)(unsafe.Add(w.regs, uintptr(off)))
}

// slabAlign keeps registers on cache lines.
const slabAlign = 64

// newSlab returns zeroed memory of size bytes, aligned to slabAlign. The slice
// keeps it alive.
func newSlab(size int) ([]uint64, unsafe.Pointer) {
	slab := make([]uint64, (size+slabAlign)/8+1)
	// SAFETY: the slice has slabAlign bytes more than are used.
	start := unsafe.Pointer(&slab[0])
	skip := -uintptr(start) & (slabAlign - 1)
	return slab, unsafe.Add(start, skip)
}

// load widens the lanes of a register into v.
func (w *warp) load(off uint32, wd width, v *[lanes]uint64) {
	switch wd {
	case width32:
		for i, x := range w.u32(off) {
			v[i] = uint64(x)
		}
	case width64:
		*v = *w.u64(off)
	case width16:
		for i, x := range w.u16(off) {
			v[i] = uint64(x)
		}
	case widthPred:
		p := *w.pred(off)
		for i := range v {
			v[i] = uint64(p >> i & 1)
		}
	}
}

// store narrows the lanes of v in mask m into a register.
func (w *warp) store(off uint32, wd width, v *[lanes]uint64, m uint32) {
	switch wd {
	case width32:
		storeLanes(w.u32(off), v, m)
	case width64:
		if m == allLanes {
			*w.u64(off) = *v
			return
		}
		storeLanes(w.u64(off), v, m)
	case width16:
		storeLanes(w.u16(off), v, m)
	case widthPred:
		var p uint32
		for i := range v {
			p |= uint32(v[i]&1) << i
		}
		d := w.pred(off)
		*d = *d&^m | p&m
	}
}

func storeLanes[T uint16 | uint32 | uint64](d *[lanes]T, v *[lanes]uint64, m uint32) {
	if m == allLanes {
		for i := range d {
			d[i] = T(v[i])
		}
		return
	}
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes - 1)
		d[i] = T(v[i])
	}
}

// fill stores one value into all lanes of m.
func (w *warp) fill(off uint32, wd width, value uint64, m uint32) {
	switch wd {
	case width32:
		fillLanes(w.u32(off), uint32(value), m)
	case width64:
		fillLanes(w.u64(off), value, m)
	case width16:
		fillLanes(w.u16(off), uint16(value), m)
	case widthPred:
		setPred(w.pred(off), m, -uint32(value&1))
	}
}

func fillLanes[T uint16 | uint32 | uint64](d *[lanes]T, value T, m uint32) {
	if m == allLanes {
		for i := range d {
			d[i] = value
		}
		return
	}
	for s := m; s != 0; s &= s - 1 {
		d[bits.TrailingZeros32(s)&(lanes-1)] = value
	}
}

// lane returns one lane of a register.
func (w *warp) lane(off uint32, wd width, i int) uint64 {
	switch wd {
	case width32:
		return uint64(w.u32(off)[i])
	case width64:
		return w.u64(off)[i]
	case width16:
		return uint64(w.u16(off)[i])
	}
	return uint64(*w.pred(off) >> i & 1)
}

// regPointer is the start of a frame's registers.
type regPointer = unsafe.Pointer

// newBytes is newSlab with the address as a number.
func newBytes(size uint64) ([]uint64, uintptr) {
	slab, start := newSlab(int(size))
	return slab, addressOf(start)
}

// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// vectorAccess returns a faster version of a load or store of vectors, or nil.
func vectorAccess(in *inst, store bool) execFunc {
	reg := in.more.widths[0]
	for _, wd := range in.more.widths {
		if wd != reg {
			return nil
		}
	}
	switch {
	case in.mem.size == 4 && reg == lanes.Width32:
		return chooseVector[uint32, uint32](store)
	case in.mem.size == 8 && reg == lanes.Width64:
		return chooseVector[uint64, uint64](store)
	case in.mem.size == 2 && reg == lanes.Width16:
		return chooseVector[uint16, uint16](store)
	case in.mem.size == 1 && reg == lanes.Width16 && (store || !in.mem.signed):
		return chooseVector[uint8, uint16](store)
	}
	return nil
}

func chooseVector[M memType, R regType](store bool) execFunc {
	if store {
		return storeVector[M, R]
	}
	return loadVector[M, R]
}

// locateVector is locate for what locateFast knows, in the range that was accessed last or another
// one.
func (w *warp) locateVector(in *inst, m uint32, n uint64, write bool, p *addresses) bool {
	if w.locateFast(in.A, in.AW, in.imm, in.mem.space, m, n, write, p) {
		return true
	}
	other := in.AW == lanes.Width64 && in.mem.space != ptx.Shared && in.mem.space != ptx.Local
	return other && w.turn(in, m) &&
		w.locateFast(in.A, in.AW, in.imm, in.mem.space, m, n, write, p)
}

// loadVector finds all addresses first: an element may be loaded to where they are.
func loadVector[M memType, R regType](w *warp, in *inst, m uint32) {
	var p addresses
	size := unsafe.Sizeof(M(0))
	if !w.locateVector(in, m, uint64(size)*uint64(in.mem.count), false, &p) {
		execLoad(w, in, m)
		return
	}
	for k, reg := range in.more.regs {
		d, off := lanes.Of[R](w.Registers, reg), uintptr(k)*size
		if m == lanes.All {
			for i := range d {
				d[i] = R(*(*M)(at(p[i] + off)))
			}
			continue
		}
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes.Count - 1)
			d[i] = R(*(*M)(at(p[i] + off)))
		}
	}
}

func storeVector[M memType, R regType](w *warp, in *inst, m uint32) {
	var p addresses
	size := unsafe.Sizeof(M(0))
	if !w.locateVector(in, m, uint64(size)*uint64(in.mem.count), true, &p) {
		execStore(w, in, m)
		return
	}
	for k, reg := range in.more.regs {
		v, off := lanes.Of[R](w.Registers, reg), uintptr(k)*size
		if m == lanes.All {
			for i := range v {
				*(*M)(at(p[i] + off)) = M(v[i])
			}
			continue
		}
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes.Count - 1)
			*(*M)(at(p[i] + off)) = M(v[i])
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"math/bits"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// locateVector is locate for what locateFast knows, in the range that was accessed last or another
// one.
func (u *Unit) locateVector(in *decoded.Inst, m uint32, n uint64, write bool, p *Addresses) bool {
	if u.locateFast(in.A, in.AW, in.Imm, in.Mem.Space, m, n, write, p) {
		return true
	}
	other := in.AW == lanes.Width64 && in.Mem.Space != ptx.Shared && in.Mem.Space != ptx.Local
	return other && u.turn(in, m) &&
		u.locateFast(in.A, in.AW, in.Imm, in.Mem.Space, m, n, write, p)
}

// loadVector finds all addresses first: an element may be loaded to where they are.
func loadVector[M memType, R regType](u *Unit, in *decoded.Inst, m uint32) {
	var p Addresses
	size := unsafe.Sizeof(M(0))
	if !u.locateVector(in, m, uint64(size)*uint64(in.Mem.Count), false, &p) {
		execLoad(u, in, m)
		return
	}
	for k, reg := range in.More.Regs {
		d, off := lanes.Of[R](u.Registers, reg), uintptr(k)*size
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

func storeVector[M memType, R regType](u *Unit, in *decoded.Inst, m uint32) {
	var p Addresses
	size := unsafe.Sizeof(M(0))
	if !u.locateVector(in, m, uint64(size)*uint64(in.Mem.Count), true, &p) {
		execStore(u, in, m)
		return
	}
	for k, reg := range in.More.Regs {
		v, off := lanes.Of[R](u.Registers, reg), uintptr(k)*size
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

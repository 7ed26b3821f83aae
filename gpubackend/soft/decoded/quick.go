// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// quickOp is the operation of a load or store that has a way of its own, or OpNone: one by which
// programs wait for others has none.
func quickOp(in *Inst, store bool) Op {
	if in.Mem.Spin {
		return OpNone
	}
	if in.More != nil {
		return quickVector(in, store)
	}
	if in.Mem.Count != 1 {
		return OpNone
	}
	reg := in.DW
	if store {
		reg = in.BW
	}
	element, ok := elementOf(in, reg, store)
	switch {
	case !ok:
	case in.Mem.Space == ptx.Shared && in.AW == lanes.Width32:
		return QuickAccess(AccessShared32, element, store)
	case in.Mem.Space == ptx.Shared:
		return QuickAccess(AccessShared, element, store)
	case in.AW == lanes.Width64 &&
		(in.Mem.Space == ptx.Global || in.Mem.Space == ptx.Generic || in.Mem.Space == ptx.Const):
		return QuickAccess(AccessGlobal, element, store)
	}
	return OpNone
}

// quickVector is quickOp for vectors, whose registers are of one width.
func quickVector(in *Inst, store bool) Op {
	reg := in.More.Widths[0]
	for _, wd := range in.More.Widths {
		if wd != reg {
			return OpNone
		}
	}
	if element, ok := elementOf(in, reg, store); ok && element <= AccessU8in16 {
		return QuickAccess(AccessVector, element, store)
	}
	return OpNone
}

// elementOf is what an access moves, if there is a way for it.
func elementOf(in *Inst, reg lanes.Width, store bool) (AccessElement, bool) {
	signed := in.Mem.Signed && !store
	switch size := in.Mem.Size; {
	case size == 4 && reg == lanes.Width32:
		return Access32, true
	case size == 8 && reg == lanes.Width64:
		return Access64, true
	case size == 2 && reg == lanes.Width16:
		return Access16, true
	case size == 1 && reg == lanes.Width16 && !signed:
		return AccessU8in16, true
	case size == 1 && reg == lanes.Width16:
		return AccessS8in16, true
	case size == 1 && reg == lanes.Width32 && !signed:
		return AccessU8in32, true
	case size == 1 && reg == lanes.Width32:
		return AccessS8in32, true
	}
	return 0, false
}

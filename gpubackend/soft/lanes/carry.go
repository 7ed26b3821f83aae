// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// Carry describes an instruction of extended precision: what is added or subtracted, and which way
// the carry goes.
type Carry struct {
	// Mul is the product for mad and madc, nil for add and sub.
	Mul      scalar.Func
	Sub      bool
	In, Out  bool
	Bits     uint
	Register uint32
}

// Func returns the function that executes it.
func (op Carry) Func() Func {
	return func(r Registers, o *Operands, m uint32) { op.execute(r, o, m) }
}

func (op *Carry) execute(r Registers, o *Operands, m uint32) {
	var a, b, c, sum [Count]uint64
	r.Load(o.A, o.AW, &a)
	r.Load(o.B, o.BW, &b)
	if op.Mul != nil {
		r.Load(o.C, o.CW, &c)
	}
	flags := r.Pred(op.Register)
	var carries uint32
	for i := range a {
		x, y := a[i], b[i]
		if op.Mul != nil {
			x, y = op.Mul(x, y, 0), c[i]
		}
		carry := uint64(0)
		if op.In {
			carry = uint64(*flags >> i & 1)
		}
		var over uint64
		if sum[i], over = op.step(x, y, carry); over != 0 {
			carries |= 1 << i
		}
	}
	if op.Out {
		SetPred(flags, m, carries)
	}
	r.Store(o.D, o.DW, &sum, m)
}

// step adds or subtracts with carry or borrow.
func (op *Carry) step(x, y, carry uint64) (sum, over uint64) {
	if op.Bits == 32 {
		x, y = x&0xffffffff, y&0xffffffff
		if op.Sub {
			sum = x - y - carry
		} else {
			sum = x + y + carry
		}
		return sum, sum >> 32 & 1
	}
	if op.Sub {
		return bits.Sub64(x, y, carry)
	}
	return bits.Add64(x, y, carry)
}

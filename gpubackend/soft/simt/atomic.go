// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// atomicFunc performs an atomic operation at p and returns the old value.
type atomicFunc func(p uintptr, b, c uint64) uint64

// atomicOp makes the function of an atomic operation; nil if there is none for
// the type.
func atomicOp(op string, t ptx.Type) atomicFunc {
	switch t.Size() {
	case 4:
		switch {
		case op == "add" && scalar.IsInteger(t, false):
			return func(p uintptr, b, _ uint64) uint64 { return uint64(add32(p, uint32(b))) }
		case op == "exch":
			return func(p uintptr, b, _ uint64) uint64 { return uint64(swap32(p, uint32(b))) }
		}
		return updating32(scalar.Update(op, t))
	case 8:
		switch {
		case op == "add" && scalar.IsInteger(t, false):
			return add64Atomic
		case op == "exch":
			return func(p uintptr, b, _ uint64) uint64 { return swap64(p, b) }
		}
		return updating64(scalar.Update(op, t))
	case 2:
		return updating16(scalar.Update(op, t))
	}
	return nil
}

func add64Atomic(p uintptr, b, _ uint64) uint64 { return add64(p, b) }

// updating32 applies f by compare and swap.
func updating32(f scalar.Func) atomicFunc {
	if f == nil {
		return nil
	}
	return func(p uintptr, b, c uint64) uint64 {
		for {
			old := load32(p)
			if value := uint32(f(uint64(old), b, c)); value == old || cas32(p, old, value) {
				return uint64(old)
			}
		}
	}
}

func updating64(f scalar.Func) atomicFunc {
	if f == nil {
		return nil
	}
	return func(p uintptr, b, c uint64) uint64 {
		for {
			old := load64(p)
			if value := f(old, b, c); value == old || cas64(p, old, value) {
				return old
			}
		}
	}
}

// updating16 works on the 32-bit word around p.
func updating16(f scalar.Func) atomicFunc {
	if f == nil {
		return nil
	}
	return func(p uintptr, b, c uint64) uint64 {
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
}

// decodeAtom decodes atom and red.
func decodeAtom(d *decoder, in *ptx.Inst, m *modifiers) error {
	decoded := inst{kind: kindMemory, exec: execAtomic, more: d.more(instMore{})}
	decoded.mem.space = m.space()
	m.ordering()
	m.has("noftz")
	op := m.oneOf("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")
	t := m.typ()
	f := atomicOp(op, t)
	if f == nil || decoded.mem.space == ptx.Const || decoded.mem.space == ptx.Param ||
		decoded.mem.space == ptx.Local {
		return errType
	}
	decoded.more.atomic = f
	decoded.mem.size = uint8(t.Size())
	args := in.Args
	if in.Op == "red" {
		args = append([]ptx.Operand{{Kind: ptx.Sink}}, args...)
	}
	want := 3
	if op == "cas" {
		want = 4
	}
	// A cache policy may follow the operands.
	if len(args) != want && len(args) != want+1 {
		return errOperands
	}
	return d.atomicOperands(&decoded, args, t, want)
}

func (d *decoder) atomicOperands(in *inst, args []ptx.Operand, t ptx.Type, want int) error {
	var err error
	if in.D, in.DW, err = d.dest(args[0], t); err != nil {
		return err
	}
	if err = d.memoryOperand(in, args[1]); err != nil {
		return err
	}
	if in.B, in.BW, err = d.source(args[2], t); err != nil {
		return err
	}
	in.C, in.CW = in.B, in.BW
	if want == 4 {
		if in.C, in.CW, err = d.source(args[3], t); err != nil {
			return err
		}
	}
	if in.DW == lanes.WidthPred || in.BW == lanes.WidthPred || in.CW == lanes.WidthPred {
		return errOperands
	}
	d.emit(*in)
	return nil
}

// execAtomic performs the operation for one lane after the other.
func execAtomic(w *warp, in *inst, m uint32) {
	var p addresses
	var b, c, r [lanes.Count]uint64
	if !w.locate(in, m, uint64(in.mem.size), true, &p) {
		return
	}
	w.spent(true)
	w.Load(in.B, in.BW, &b)
	w.Load(in.C, in.CW, &c)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		r[i] = in.more.atomic(p[i], b[i], c[i])
	}
	w.Store(in.D, in.DW, &r, m)
}

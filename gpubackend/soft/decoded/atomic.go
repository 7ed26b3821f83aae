// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// atomicOp is the operation that does an atomic instruction, and what it computes if that is done
// by compare and swap; OpNone if there is none for the type.
func atomicOp(op string, t ptx.Type) (Op, scalar.Func) {
	add, swap := op == "add" && scalar.IsInteger(t, false), op == "exch"
	update := scalar.Update(op, t)
	switch t.Size() {
	case 4:
		switch {
		case add:
			return OpAdd32, nil
		case swap:
			return OpSwap32, nil
		case update != nil:
			return OpUpdate32, update
		}
	case 8:
		switch {
		case add:
			return OpAdd64, nil
		case swap:
			return OpSwap64, nil
		case update != nil:
			return OpUpdate64, update
		}
	case 2:
		if update != nil {
			return OpUpdate16, update
		}
	}
	return OpNone, nil
}

// decodeAtom decodes atom and red.
func decodeAtom(d *decoder, in *ptx.Inst, m *modifiers) error {
	decoded := Inst{Kind: KindAccess, More: d.more(More{})}
	decoded.Mem.Space = m.space()
	m.ordering()
	m.has("noftz")
	op := m.oneOf("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")
	t := m.typ()
	if decoded.Op, decoded.More.Scalar = atomicOp(op, t); decoded.Op == OpNone ||
		decoded.Mem.Space == ptx.Const || decoded.Mem.Space == ptx.Param ||
		decoded.Mem.Space == ptx.Local {
		return errType
	}
	decoded.Mem.Size, decoded.Mem.Waits = uint8(t.Size()), true
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

func (d *decoder) atomicOperands(in *Inst, args []ptx.Operand, t ptx.Type, want int) error {
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

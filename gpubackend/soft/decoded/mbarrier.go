// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// MbarrierPending are the bits of an mbarrier object that count the pending arrivals.
const MbarrierPending = 1<<20 - 1

// decodeMbarrier decodes mbarrier. Counts of transactions, which only bulk
// copies make, aren't supported.
func decodeMbarrier(d *decoder, in *ptx.Inst, m *modifiers) error {
	op := m.oneOf("init", "inval", "arrive", "test_wait", "try_wait", "pending_count")
	parity := m.has("parity")
	m.has("noComplete")
	m.ordering()
	space := m.space()
	if m.typ() != ptx.B64 {
		return errType
	}
	if op == "pending_count" {
		f := func(a, _, _ uint64) uint64 { return a & MbarrierPending }
		return d.compute("", f, in.Args, ptx.U32, ptx.B64)
	}
	decoded := Inst{Kind: KindAccess, Mem: Access{Space: space, Size: 8}}
	one := ptx.Operand{Kind: ptx.Int, Value: 1}
	switch op {
	case "init":
		if len(in.Args) != 2 {
			return errOperands
		}
		return d.emitMbarrier(decoded, OpMbarrierInit, nil, in.Args[0], in.Args[1])
	case "inval":
		return d.emitMbarrier(decoded, OpMbarrierInval, nil, in.Args[0], one)
	case "arrive":
		return d.mbarrierArrive(decoded, in.Args)
	case "test_wait", "try_wait":
		if len(in.Args) != 3 && (len(in.Args) != 4 || op != "try_wait") {
			return errOperands
		}
		decoded.Imm, decoded.Mem.Waits = scalar.Bit(parity), true
		return d.emitMbarrier(decoded, OpMbarrierTest, &in.Args[0], in.Args[1], in.Args[2])
	}
	return errType
}

func (d *decoder) mbarrierArrive(decoded Inst, args []ptx.Operand) error {
	count := ptx.Operand{Kind: ptx.Int, Value: 1}
	if len(args) == 3 {
		count = args[2]
	} else if len(args) != 2 {
		return errOperands
	}
	return d.emitMbarrier(decoded, OpMbarrierArrive, &args[0], args[1], count)
}

// emitMbarrier emits an operation on the object at memory. The offset goes to
// sourceOffset, which leaves imm to the operation.
func (d *decoder) emitMbarrier(
	in Inst, op Op, dest *ptx.Operand, memory, value ptx.Operand,
) error {
	in.Op = op
	flag := in.Imm
	if err := d.memoryOperand(&in, memory); err != nil {
		return err
	}
	in.More = d.more(More{SourceOffset: in.Imm})
	in.Imm = flag
	var err error
	if in.B, in.BW, err = d.source(value, ptx.B64); err != nil || in.BW == lanes.WidthPred {
		return errOperands
	}
	if dest != nil {
		t := d.destType(*dest)
		if in.D, in.DW, err = d.dest(*dest, t); err != nil {
			return err
		}
	}
	d.emit(in)
	return nil
}

// destType is the type of a destination that may be of any.
func (d *decoder) destType(op ptx.Operand) ptx.Type {
	if op.Kind == ptx.Reg && d.widthOf(op.Reg) == lanes.WidthPred {
		return ptx.Pred
	}
	return ptx.B64
}

// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// decodeMov decodes mov, packing and unpacking of vectors included.
func decodeMov(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if len(in.Args) != 2 || t == ptx.NoType || t == ptx.B128 || t.Size() == 1 {
		return errOperands
	}
	if t == ptx.Pred {
		return d.predicates(lanes.PredMov, in.Args)
	}
	if in.Args[1].Kind == ptx.Vector {
		return d.pack(in.Args[0], in.Args[1], t)
	}
	if in.Args[0].Kind == ptx.Vector {
		return d.unpack(in.Args[0], in.Args[1], t)
	}
	if in.Args[1].Kind == ptx.Special {
		if dynamic, ok := dynamicSpecials[in.Args[1].Name]; ok {
			return d.dynamicSpecial(in, t, dynamic)
		}
	}
	return d.compute("mov."+sizeKey("mov", t), scalar.Identity, in.Args, t, t)
}

// dynamicSpecial reads a special register that changes while a kernel runs.
func (d *decoder) dynamicSpecial(in *ptx.Inst, t ptx.Type, what dynamicValue) error {
	off, wd, err := d.dest(in.Args[0], t)
	if err != nil || wd == lanes.WidthPred {
		return errOperands
	}
	d.emit(Inst{Kind: KindExecute, Op: what.op, Imm: what.shift,
		Operands: lanes.Operands{D: off, DW: wd}})
	return nil
}

// dynamicValue is one of them: what gives it, and how far that is shifted.
type dynamicValue struct {
	op    Op
	shift uint64
}

// dynamicSpecials are the special registers that have no fixed value.
var dynamicSpecials = map[string]dynamicValue{
	"clock":          {OpClock, 0},
	"clock_hi":       {OpClock, 32},
	"clock64":        {OpClock, 0},
	"globaltimer":    {OpTimer, 0},
	"globaltimer_lo": {OpTimer, 0},
	"globaltimer_hi": {OpTimer, 32},
}

// vector decodes the elements of a vector as registers of t divided evenly.
func (d *decoder) vector(vec ptx.Operand, t ptx.Type, dest bool) (*More, error) {
	more := d.more(More{})
	n := len(vec.Elems)
	if n == 0 || t.Size()%n != 0 {
		return nil, errOperands
	}
	element := map[int]ptx.Type{1: ptx.B8, 2: ptx.B16, 4: ptx.B32, 8: ptx.B64}[t.Size()/n]
	for _, e := range vec.Elems {
		var off uint32
		var wd lanes.Width
		var err error
		if dest {
			off, wd, err = d.dest(e, element)
		} else {
			off, wd, err = d.source(e, element)
		}
		if err != nil || wd == lanes.WidthPred {
			return nil, errOperands
		}
		more.Regs = append(more.Regs, off)
		more.Widths = append(more.Widths, wd)
	}
	return more, nil
}

// pack decodes mov.b64 %rd, {%r1, %r2}.
func (d *decoder) pack(dest, vec ptx.Operand, t ptx.Type) error {
	more, err := d.vector(vec, t, false)
	if err != nil {
		return err
	}
	off, wd, err := d.dest(dest, t)
	if err != nil || wd == lanes.WidthPred {
		return errOperands
	}
	d.emit(Inst{Operands: lanes.Operands{D: off, DW: wd},
		Compute: lanes.Pack(uint(t.Size()*8/len(vec.Elems)), more.Regs, more.Widths)})
	return nil
}

// unpack decodes mov.b64 {%r1, %r2}, %rd.
func (d *decoder) unpack(vec, src ptx.Operand, t ptx.Type) error {
	more, err := d.vector(vec, t, true)
	if err != nil {
		return err
	}
	off, wd, err := d.source(src, t)
	if err != nil || wd == lanes.WidthPred {
		return errOperands
	}
	d.emit(Inst{Operands: lanes.Operands{A: off, AW: wd},
		Compute: lanes.Unpack(uint(t.Size()*8/len(vec.Elems)), more.Regs, more.Widths)})
	return nil
}

// decodeActivemask decodes activemask.b32.
func decodeActivemask(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := m.typ(); t != ptx.B32 || len(in.Args) != 1 {
		return errOperands
	}
	return d.dynamicSpecial(in, ptx.B32, dynamicValue{op: OpActiveMask})
}

// special returns the register that holds a special register of fixed value.
func (d *decoder) special(name string, wd lanes.Width) (uint32, lanes.Width, error) {
	if _, ok := specialNamed(name); !ok {
		return 0, 0, errSpecial(name)
	}
	return d.constant(Preset{Width: wd, special: name}), wd, nil
}

type errSpecial string

func (e errSpecial) Error() string { return "special register %" + string(e) + " not supported" }

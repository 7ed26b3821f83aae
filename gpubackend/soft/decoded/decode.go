// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// decoder turns a function's body into instructions.
type decoder struct {
	prog *Program
	fn   *Function
	src  *ptx.Function
	// regs are the offsets of the PTX registers.
	regs []uint32
	// start are the instructions at which PTX instructions begin.
	start  []int32
	consts map[Preset]uint32
	// cur is the PTX instruction at work, guard its decoded guard.
	cur       *ptx.Inst
	guard     uint32
	guardFlip uint32
	carry     uint32
	// tempTypes are the types of the registers beyond those of src.
	tempTypes []ptx.Type
}

// TrueReg is the predicate that is set for all lanes; each frame begins with it.
const TrueReg uint32 = 0

// errOperands is the error for operands of a form or number that an instruction
// doesn't take.
var errOperands = errors.New("operands not supported")

// maxFrame bounds the registers of a function in bytes.
const maxFrame = 16 << 20

// decodeFunc decodes one opcode.
type decodeFunc func(d *decoder, in *ptx.Inst, m *modifiers) error

// decodeFunction decodes the body of fn.src behind prog.code.
func decodeFunction(prog *Program, fn *Function) error {
	d := &decoder{prog: prog, fn: fn, src: fn.src, consts: make(map[Preset]uint32)}
	fn.FrameSize = lanes.SlabAlign
	for _, r := range d.src.Regs {
		if r.Type == ptx.B128 {
			return &ptx.Error{Line: d.src.Line, Msg: "128-bit registers not supported"}
		}
		d.prog.take(registerBytes)
		d.regs = append(d.regs, d.newReg(regWidth(r.Type)))
		if err := d.checkSize(d.src.Line); err != nil {
			return err
		}
	}
	d.carry = d.newReg(lanes.WidthPred)
	fn.Entry = int32(len(prog.Code))
	for i := range d.src.Body {
		in := &d.src.Body[i]
		d.prog.take(startBytes)
		d.start = append(d.start, int32(len(prog.Code)))
		if err := d.decode(in); err != nil {
			return &ptx.Error{Line: in.Line, Msg: fmt.Sprintf("%s: %v", in.Name(), err)}
		}
		if err := d.checkSize(in.Line); err != nil {
			return err
		}
	}
	d.start = append(d.start, int32(len(prog.Code)))
	// Falling off the end returns.
	d.cur = &ptx.Inst{Op: "ret", Line: d.src.Line}
	d.guard, d.guardFlip = TrueReg, 0
	d.emit(Inst{Kind: KindReturn})
	d.patch()
	return nil
}

// checkSize refuses what has too many registers or, with all before it, takes too much memory.
func (d *decoder) checkSize(line int) error {
	if d.fn.FrameSize > maxFrame {
		return &ptx.Error{Line: line,
			Msg: fmt.Sprintf("function %s has too many registers", d.src.Name)}
	}
	return d.prog.over
}

// patch turns branch targets from PTX instructions into decoded ones.
func (d *decoder) patch() {
	for i := int(d.fn.Entry); i < len(d.prog.Code); i++ {
		in := &d.prog.Code[i]
		switch in.Kind {
		case KindBranch:
			in.Target = d.start[in.Target]
		case KindBranchIndex:
			for k, t := range in.More.Targets {
				in.More.Targets[k] = d.start[t]
			}
		}
	}
}

// decode decodes one PTX instruction.
func (d *decoder) decode(in *ptx.Inst) error {
	decodeOp := decoders[in.Op]
	if decodeOp == nil {
		return errors.New("instruction not supported")
	}
	d.cur = in
	d.guard, d.guardFlip = TrueReg, 0
	if in.Guard != ptx.NoReg {
		d.guard = d.regs[in.Guard]
		if in.GuardNot {
			d.guardFlip = lanes.All
		}
	}
	m := &modifiers{words: slices.Clone(in.Mods)}
	if err := decodeOp(d, in, m); err != nil {
		return err
	}
	return m.rest()
}

// emit appends a decoded instruction and returns it for completion.
func (d *decoder) emit(in Inst) *Inst {
	in.Guard, in.GuardFlip = d.guard, d.guardFlip
	in.Line = int32(d.cur.Line)
	d.prog.take(instBytes)
	d.prog.Code = append(d.prog.Code, in)
	return &d.prog.Code[len(d.prog.Code)-1]
}

// regWidth is the width of the register for a type. 8-bit values live in 16
// bits.
func regWidth(t ptx.Type) lanes.Width {
	switch {
	case t == ptx.Pred:
		return lanes.WidthPred
	case t.Size() <= 2:
		return lanes.Width16
	}
	return lanes.Width(t.Size())
}

// widthOf is the width of a register of src or a temporary one.
func (d *decoder) widthOf(reg int) lanes.Width {
	if reg < len(d.src.Regs) {
		return regWidth(d.src.Regs[reg].Type)
	}
	return regWidth(d.tempTypes[reg-len(d.src.Regs)])
}

// newReg allocates a register in the frame.
func (d *decoder) newReg(wd lanes.Width) uint32 {
	size := uint32(wd) * lanes.Count
	if wd == lanes.WidthPred {
		size = 4
	}
	off := (d.fn.FrameSize + size - 1) &^ (size - 1)
	if size > lanes.SlabAlign {
		off = (d.fn.FrameSize + lanes.SlabAlign - 1) &^ (lanes.SlabAlign - 1)
	}
	d.fn.FrameSize = off + size
	return off
}

// Preset is a register that is filled in before execution: with a constant,
// with the address of a symbol, or with a special register.
type Preset struct {
	Width   lanes.Width
	Value   uint64
	Symbol  symbolRef
	special string
}

// symbolRef names something whose address is known at launch.
type symbolRef struct {
	Variable *ptx.Variable
	Function *ptx.Function
}

// constant returns the register that holds a constant.
func (d *decoder) constant(p Preset) uint32 {
	if off, ok := d.consts[p]; ok {
		return off
	}
	d.prog.take(presetBytes)
	off := d.newReg(p.Width)
	d.consts[p] = off
	if p.special != "" {
		d.fn.reserves = d.fn.reserves || strings.HasPrefix(p.special, ReservedPrefix)
		number, _ := specialNamed(p.special)
		d.fn.Specials = append(d.fn.Specials, SpecialRegister{off, p.Width, number})
	} else {
		d.fn.Consts = append(d.fn.Consts, presetRegister{off, p})
	}
	return off
}

// source returns the register of an operand that is read as type t, and its
// width.
func (d *decoder) source(op ptx.Operand, t ptx.Type) (uint32, lanes.Width, error) {
	wd := regWidth(t)
	switch op.Kind {
	case ptx.Reg:
		return d.sourceReg(op)
	case ptx.Int:
		return d.intConstant(op.Value, t), wd, nil
	case ptx.Float, ptx.Float32:
		value, err := floatConstant(op, t)
		return d.constant(Preset{Width: wd, Value: value}), wd, err
	case ptx.Special:
		return d.special(op.Name, wd)
	case ptx.Address:
		return d.address(op, wd)
	}
	return 0, 0, errOperands
}

// sourceReg is source for a register, negated if so written.
func (d *decoder) sourceReg(op ptx.Operand) (uint32, lanes.Width, error) {
	wd := d.widthOf(op.Reg)
	off := d.regs[op.Reg]
	if op.Not {
		neg := d.newReg(lanes.WidthPred)
		d.emit(Inst{Compute: lanes.PredNot, Operands: lanes.Operands{D: neg, A: off}})
		off = neg
	}
	return off, wd, nil
}

func (d *decoder) intConstant(value uint64, t ptx.Type) uint32 {
	wd := regWidth(t)
	switch wd {
	case lanes.WidthPred:
		if value != 0 {
			value = uint64(lanes.All)
		}
	case lanes.Width16:
		value &= 0xffff
	case lanes.Width32:
		value &= 0xffffffff
	}
	return d.constant(Preset{Width: wd, Value: value})
}

// floatConstant gives the bits of a floating-point constant as type t.
func floatConstant(op ptx.Operand, t ptx.Type) (uint64, error) {
	if op.Kind == ptx.Float32 {
		if t.Size() == 8 {
			return math.Float64bits(float64(math.Float32frombits(uint32(op.Value)))), nil
		}
		if t.Size() == 4 {
			return op.Value, nil
		}
		return 0, errOperands
	}
	switch t.Size() {
	case 8:
		return op.Value, nil
	case 4:
		return uint64(math.Float32bits(float32(math.Float64frombits(op.Value)))), nil
	}
	return 0, errOperands
}

// dest returns the register that an instruction writes, and its width. The
// sink gets a register that nobody reads.
func (d *decoder) dest(op ptx.Operand, t ptx.Type) (uint32, lanes.Width, error) {
	switch op.Kind {
	case ptx.Reg:
		if op.Not {
			break
		}
		return d.regs[op.Reg], d.widthOf(op.Reg), nil
	case ptx.Sink:
		wd := regWidth(t)
		return d.newReg(wd), wd, nil
	}
	return 0, 0, errOperands
}

// operands decodes a destination of type dt and sources of the given types into
// in, checking their number.
func (d *decoder) operands(in *Inst, args []ptx.Operand, dt ptx.Type, types ...ptx.Type) error {
	if len(args) != len(types)+1 {
		return errOperands
	}
	var err error
	if in.D, in.DW, err = d.dest(args[0], dt); err != nil {
		return err
	}
	offs := [...]*uint32{&in.A, &in.B, &in.C}
	widths := [...]*lanes.Width{&in.AW, &in.BW, &in.CW}
	for i, t := range types {
		if *offs[i], *widths[i], err = d.source(args[i+1], t); err != nil {
			return err
		}
		if (*widths[i] == lanes.WidthPred) != (t == ptx.Pred) {
			return errOperands
		}
	}
	if (in.DW == lanes.WidthPred) != (dt == ptx.Pred) {
		return errOperands
	}
	return nil
}

// compute emits an instruction that computes f on registers. key names the
// operation for the table of fast versions, which are used when all registers
// have the widths of their types.
func (d *decoder) compute(
	key string, f scalar.Func, args []ptx.Operand, dt ptx.Type, types ...ptx.Type,
) error {
	var in Inst
	if err := d.operands(&in, args, dt, types...); err != nil {
		return err
	}
	widths := [...]lanes.Width{in.AW, in.BW, in.CW}
	exact := in.DW == regWidth(dt)
	for i, t := range types {
		exact = exact && widths[i] == regWidth(t)
	}
	if exact {
		in.Compute = lanes.Loop(key)
	}
	if in.Compute == nil {
		in.Compute = lanes.Each(len(types), f)
	}
	if in.Compute == nil {
		return errors.New("type not supported")
	}
	d.emit(in)
	return nil
}

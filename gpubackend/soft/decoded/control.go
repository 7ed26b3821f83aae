// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

func decodeBra(d *decoder, in *ptx.Inst, m *modifiers) error {
	m.has("uni")
	if len(in.Args) != 1 || in.Args[0].Kind != ptx.Label {
		return errOperands
	}
	d.emit(Inst{Kind: KindBranch, Target: int32(in.Args[0].Index)})
	return nil
}

func decodeBrx(d *decoder, in *ptx.Inst, m *modifiers) error {
	if !m.has("idx") || len(in.Args) != 2 || len(in.Targets) == 0 {
		return errOperands
	}
	m.has("uni")
	decoded := Inst{Kind: KindBranchIndex, More: d.more(More{})}
	d.prog.take(uint64(len(in.Targets)) * targetBytes)
	for _, t := range in.Targets {
		decoded.More.Targets = append(decoded.More.Targets, int32(t))
	}
	var err error
	if decoded.A, decoded.AW, err = d.source(in.Args[0], ptx.U32); err != nil ||
		decoded.AW == lanes.WidthPred {
		return errOperands
	}
	d.emit(decoded)
	return nil
}

func decodeRet(d *decoder, in *ptx.Inst, m *modifiers) error {
	m.has("uni")
	d.emit(Inst{Kind: KindReturn})
	return nil
}

func decodeExit(d *decoder, in *ptx.Inst, m *modifiers) error {
	d.emit(Inst{Kind: KindExit})
	return nil
}

// decodeTrap decodes trap and brkpt.
func decodeTrap(d *decoder, in *ptx.Inst, m *modifiers) error {
	d.emit(Inst{Kind: KindExecute, Op: OpTrap})
	return nil
}

func decodeNanosleep(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.typ() != ptx.U32 || len(in.Args) != 1 {
		return errOperands
	}
	d.emit(Inst{Kind: KindYield})
	return nil
}

// decodeCall decodes direct, indirect and builtin calls.
func decodeCall(d *decoder, in *ptx.Inst, m *modifiers) error {
	m.has("uni")
	c := in.Call
	if c == nil {
		return errOperands
	}
	d.prog.take(callBytes + uint64(len(c.Args)+len(c.Results))*valueBytes)
	site := &CallSite{Target: c.Target}
	formal := c.Target
	if c.Target == nil {
		formal = c.Proto
		if d.widthOf(c.Pointer) != lanes.Width64 {
			return errOperands
		}
		site.Pointer = d.regs[c.Pointer]
		d.fn.indirect = true
	} else if !c.Target.Defined {
		if site.Builtin = builtinNamed(c.Target.Name); site.Builtin == BuiltinNone {
			return fmt.Errorf("function %s isn't defined", c.Target.Name)
		}
		site.Target = nil
	} else {
		d.fn.calls[c.Target] = true
	}
	var err error
	if site.Args, err = d.callValues(c.Args, formal.Params); err != nil {
		return err
	}
	if site.Results, err = d.callValues(c.Results, formal.Results); err != nil {
		return err
	}
	if site.Builtin != BuiltinNone {
		if err := checkBuiltin(site); err != nil {
			return err
		}
	}
	d.emit(Inst{Kind: KindCall, More: d.more(More{Call: site})})
	return nil
}

// callValues decodes actual parameters, which are .param variables.
func (d *decoder) callValues(ops []ptx.Operand, formal []ptx.Parameter) ([]Value, error) {
	var values []Value
	for i, op := range ops {
		if op.Kind != ptx.Address || op.Of != ptx.FunctionVar || op.Offset != 0 {
			return nil, errors.New("only .param variables are supported as parameters")
		}
		size := uint64(formal[i].Size)
		if d.src.Vars[op.Index].Size != size {
			return nil, fmt.Errorf("parameter %d of %d bytes, declared with %d", i,
				d.src.Vars[op.Index].Size, size)
		}
		values = append(values, Value{d.fn.varOffsets[op.Index], size})
	}
	return values, nil
}

// decodeBarrier decodes bar and barrier, bar.warp.sync included.
func decodeBarrier(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.has("warp") {
		return d.warpBarrier(in, m)
	}
	m.has("cta")
	m.has("aligned")
	op := Barrier{}
	args := in.Args
	decoded := Inst{Kind: KindBarrier, More: d.more(More{})}
	switch m.oneOf("sync", "arrive", "red") {
	case "arrive":
		op.Arrive = true
	case "red":
		var err error
		if args, err = d.barrierReduction(&decoded, &op, args, m); err != nil {
			return err
		}
	case "":
		return errors.New("form not supported")
	}
	if len(args) < 1 || len(args) > 2 || op.Arrive && len(args) != 2 {
		return errOperands
	}
	var err error
	if op.ID, op.IDWidth, err = d.source(args[0], ptx.U32); err != nil {
		return err
	}
	if len(args) == 2 {
		if op.Count, op.CountWidth, err = d.source(args[1], ptx.U32); err != nil {
			return err
		}
	}
	decoded.More.Barrier = op
	d.emit(decoded)
	return nil
}

// barrierReduction takes destination and predicate of bar.red and returns the
// operands between.
func (d *decoder) barrierReduction(
	in *Inst, op *Barrier, args []ptx.Operand, m *modifiers,
) ([]ptx.Operand, error) {
	if len(args) < 3 {
		return nil, errOperands
	}
	op.Reduce = m.oneOf("popc", "and", "or")
	t := m.typ()
	if op.Reduce == "" || (op.Reduce == "popc") != (t == ptx.U32) || t != ptx.U32 && t != ptx.Pred {
		return nil, errType
	}
	var err error
	if in.D, in.DW, err = d.dest(args[0], t); err != nil {
		return nil, err
	}
	last := len(args) - 1
	var wd lanes.Width
	if op.Pred, wd, err = d.source(args[last], ptx.Pred); err != nil || wd != lanes.WidthPred {
		return nil, errOperands
	}
	return args[1:last], nil
}

func (d *decoder) warpBarrier(in *ptx.Inst, m *modifiers) error {
	if !m.has("sync") || len(in.Args) != 1 {
		return errOperands
	}
	return d.emitSync(Inst{}, OpNone, in.Args[0])
}

// emitSync emits an instruction that the lanes of a member mask execute
// together.
func (d *decoder) emitSync(in Inst, what Op, members ptx.Operand) error {
	op := Sync{Op: what}
	var err error
	if op.Mask, op.MaskWidth, err = d.source(members, ptx.B32); err != nil ||
		op.MaskWidth == lanes.WidthPred {
		return errOperands
	}
	in.Kind = KindSync
	if in.More == nil {
		in.More = d.more(More{})
	}
	in.More.Sync = op
	d.emit(in)
	return nil
}

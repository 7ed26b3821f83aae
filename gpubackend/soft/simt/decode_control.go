// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

func decodeBra(d *decoder, in *ptx.Inst, m *modifiers) error {
	m.has("uni")
	if len(in.Args) != 1 || in.Args[0].Kind != ptx.Label {
		return errOperands
	}
	d.emit(inst{kind: kindBranch, target: int32(in.Args[0].Index)})
	return nil
}

func decodeBrx(d *decoder, in *ptx.Inst, m *modifiers) error {
	if !m.has("idx") || len(in.Args) != 2 || len(in.Targets) == 0 {
		return errOperands
	}
	m.has("uni")
	decoded := inst{kind: kindBranchIndex, more: d.more(instMore{})}
	d.prog.take(uint64(len(in.Targets)) * targetBytes)
	for _, t := range in.Targets {
		decoded.more.targets = append(decoded.more.targets, int32(t))
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
	d.emit(inst{kind: kindReturn})
	return nil
}

func decodeExit(d *decoder, in *ptx.Inst, m *modifiers) error {
	d.emit(inst{kind: kindExit})
	return nil
}

// decodeTrap decodes trap and brkpt.
func decodeTrap(d *decoder, in *ptx.Inst, m *modifiers) error {
	d.emit(inst{kind: kindMemory, exec: func(w *warp, in *inst, m uint32) {
		w.failAt(lanes.First(m), cudaabi.ErrorLaunchFailed, "trap")
	}})
	return nil
}

func decodeNanosleep(d *decoder, in *ptx.Inst, m *modifiers) error {
	if m.typ() != ptx.U32 || len(in.Args) != 1 {
		return errOperands
	}
	d.emit(inst{kind: kindYield})
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
	site := &callSite{target: c.Target}
	formal := c.Target
	if c.Target == nil {
		formal = c.Proto
		if d.widthOf(c.Pointer) != lanes.Width64 {
			return errOperands
		}
		site.pointer = d.regs[c.Pointer]
		d.fn.indirect = true
	} else if !c.Target.Defined {
		if site.builtin = builtins[c.Target.Name]; site.builtin == nil {
			return fmt.Errorf("function %s isn't defined", c.Target.Name)
		}
		site.target = nil
	} else {
		d.fn.calls[c.Target] = true
	}
	var err error
	if site.args, err = d.callValues(c.Args, formal.Params); err != nil {
		return err
	}
	if site.results, err = d.callValues(c.Results, formal.Results); err != nil {
		return err
	}
	if site.builtin != nil {
		if err := checkBuiltin(c.Target.Name, site); err != nil {
			return err
		}
	}
	d.emit(inst{kind: kindCall, more: d.more(instMore{call: site})})
	return nil
}

// callValues decodes actual parameters, which are .param variables.
func (d *decoder) callValues(ops []ptx.Operand, formal []ptx.Parameter) ([]callValue, error) {
	var values []callValue
	for i, op := range ops {
		if op.Kind != ptx.Address || op.Of != ptx.FunctionVar || op.Offset != 0 {
			return nil, errors.New("parameter that isn't a .param variable not supported")
		}
		size := uint64(formal[i].Size)
		if d.src.Vars[op.Index].Size != size {
			return nil, fmt.Errorf("parameter %d of %d bytes, declared with %d", i,
				d.src.Vars[op.Index].Size, size)
		}
		values = append(values, callValue{d.fn.varOffsets[op.Index], size})
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
	op := barrierOp{}
	args := in.Args
	decoded := inst{kind: kindBarrier, more: d.more(instMore{})}
	switch m.oneOf("sync", "arrive", "red") {
	case "arrive":
		op.arrive = true
	case "red":
		var err error
		if args, err = d.barrierReduction(&decoded, &op, args, m); err != nil {
			return err
		}
	case "":
		return errors.New("form not supported")
	}
	if len(args) < 1 || len(args) > 2 || op.arrive && len(args) != 2 {
		return errOperands
	}
	var err error
	if op.id, op.idWidth, err = d.source(args[0], ptx.U32); err != nil {
		return err
	}
	if len(args) == 2 {
		if op.count, op.countWidth, err = d.source(args[1], ptx.U32); err != nil {
			return err
		}
	}
	decoded.more.barrier = op
	d.emit(decoded)
	return nil
}

// barrierReduction takes destination and predicate of bar.red and returns the
// operands between.
func (d *decoder) barrierReduction(
	in *inst, op *barrierOp, args []ptx.Operand, m *modifiers,
) ([]ptx.Operand, error) {
	if len(args) < 3 {
		return nil, errOperands
	}
	op.reduce = m.oneOf("popc", "and", "or")
	t := m.typ()
	if op.reduce == "" || (op.reduce == "popc") != (t == ptx.U32) || t != ptx.U32 && t != ptx.Pred {
		return nil, errType
	}
	var err error
	if in.D, in.DW, err = d.dest(args[0], t); err != nil {
		return nil, err
	}
	last := len(args) - 1
	var wd lanes.Width
	if op.pred, wd, err = d.source(args[last], ptx.Pred); err != nil || wd != lanes.WidthPred {
		return nil, errOperands
	}
	return args[1:last], nil
}

func (d *decoder) warpBarrier(in *ptx.Inst, m *modifiers) error {
	if !m.has("sync") || len(in.Args) != 1 {
		return errOperands
	}
	return d.emitSync(inst{}, nil, in.Args[0])
}

// emitSync emits an instruction that the lanes of a member mask execute
// together.
func (d *decoder) emitSync(in inst, exec execFunc, members ptx.Operand) error {
	op := syncOp{exec: exec}
	var err error
	if op.mask, op.maskWidth, err = d.source(members, ptx.B32); err != nil ||
		op.maskWidth == lanes.WidthPred {
		return errOperands
	}
	in.kind = kindSync
	if in.more == nil {
		in.more = d.more(instMore{})
	}
	in.more.sync = op
	d.emit(in)
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"errors"
	"fmt"
	"math"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// space takes the state space of a memory instruction.
func (m *modifiers) space() ptx.Space {
	switch m.oneOf("global", "const", "shared", "shared::cta", "shared::cluster", "local",
		"param", "param::entry", "param::func") {
	case "global":
		return ptx.Global
	case "const":
		return ptx.Const
	case "shared", "shared::cta", "shared::cluster":
		return ptx.Shared
	case "local":
		return ptx.Local
	case "param", "param::entry", "param::func":
		return ptx.Param
	}
	return ptx.Generic
}

// ordering takes the modifiers of memory order, scope and caching, and tells
// whether the access is one by which programs wait for each other.
func (m *modifiers) ordering() (spin bool) {
	spin = m.oneOf("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio") != ""
	m.oneOf("weak")
	m.oneOf("cta", "cluster", "gpu", "sys", "gl")
	m.oneOf("nc")
	spin = m.oneOf("cv") != "" || spin
	m.oneOf("ca", "cg", "cs", "lu", "wb", "wt")
	m.oneOf("unified")
	m.dropPrefix("L1::")
	m.dropPrefix("L2::")
	return spin
}

// decodeLoad decodes ld and ldu, decodeStore st.
func decodeLoad(d *decoder, in *ptx.Inst, m *modifiers) error {
	return d.access(in, m, false)
}

func decodeStore(d *decoder, in *ptx.Inst, m *modifiers) error {
	return d.access(in, m, true)
}

func (d *decoder) access(in *ptx.Inst, m *modifiers, store bool) error {
	access := Access{Space: m.space(), Spin: m.ordering(), Count: 1}
	switch m.oneOf("v2", "v4", "v8") {
	case "v2":
		access.Count = 2
	case "v4":
		access.Count = 4
	case "v8":
		access.Count = 8
	}
	t := m.typ()
	if t == ptx.NoType || t == ptx.Pred || t == ptx.B128 || int(access.Count)*t.Size() > 32 {
		return errType
	}
	// A cache policy may follow the operands.
	if len(in.Args) != 2 && len(in.Args) != 3 {
		return errOperands
	}
	access.Size, access.Signed = uint8(t.Size()), t.Signed()
	access.Waits = access.Spin && !store
	decoded := Inst{Kind: KindAccess, Mem: access}
	memory, value := in.Args[1], in.Args[0]
	if store {
		memory, value = value, memory
	}
	if err := d.values(&decoded, value, t, store); err != nil {
		return err
	}
	if !store && access.Space == ptx.Param && d.src.Entry {
		done, err := d.loadParam(decoded, memory)
		if done || err != nil {
			return err
		}
	}
	if err := d.memoryOperand(&decoded, memory); err != nil {
		return err
	}
	decoded.Op = OpLoad
	if store {
		decoded.Op = OpStore
	}
	if quick := quickOp(&decoded, store); quick != OpNone {
		decoded.Op = quick
	}
	d.emit(decoded)
	return nil
}

// values decodes the register or vector that is loaded or stored.
func (d *decoder) values(in *Inst, value ptx.Operand, t ptx.Type, store bool) error {
	if in.Mem.Count == 1 && value.Kind != ptx.Vector {
		return d.value(&in.D, &in.DW, &in.B, &in.BW, value, t, store)
	}
	if value.Kind != ptx.Vector || len(value.Elems) != int(in.Mem.Count) {
		return errOperands
	}
	in.More = d.more(More{})
	return d.transfers(in, value.Elems, t, store)
}

// transfers decodes registers to be loaded into or stored, one after the other.
func (d *decoder) transfers(in *Inst, elems []ptx.Operand, t ptx.Type, store bool) error {
	for _, e := range elems {
		var off uint32
		var wd lanes.Width
		if err := d.value(&off, &wd, &off, &wd, e, t, store); err != nil {
			return err
		}
		in.More.Regs = append(in.More.Regs, off)
		in.More.Widths = append(in.More.Widths, wd)
	}
	return nil
}

// value decodes one register to be loaded into or stored.
func (d *decoder) value(to *uint32, toWidth *lanes.Width, from *uint32, fromWidth *lanes.Width,
	op ptx.Operand,
	t ptx.Type, store bool) error {
	var wd lanes.Width
	var err error
	if store {
		*from, wd, err = d.source(op, t)
		*fromWidth = wd
	} else {
		*to, wd, err = d.dest(op, t)
		*toWidth = wd
	}
	if err == nil && (wd == lanes.WidthPred || int(wd) < t.Size()) {
		return errOperands
	}
	return err
}

// loadParam decodes ld.param of a kernel's named parameter.
func (d *decoder) loadParam(in Inst, memory ptx.Operand) (bool, error) {
	if memory.Kind != ptx.Memory {
		return false, errOperands
	}
	base := memory.Elems[0]
	if base.Kind != ptx.Address || base.Of != ptx.ParamVar {
		return false, nil
	}
	off := int64(d.src.Params[base.Index].Offset) + memory.Offset + base.Offset
	end := off + int64(in.Mem.Size)*int64(in.Mem.Count)
	if off < 0 || end > int64(d.src.ParamSize) {
		return false, fmt.Errorf("bytes %d to %d of %d bytes of parameters", off, end,
			d.src.ParamSize)
	}
	in.Op, in.Imm = OpLoadParam, uint64(off)
	d.emit(in)
	return true, nil
}

// memoryOperand decodes [base+offset] into a, aw and imm, and corrects the space
// of parameters of device functions, which live in local memory.
func (d *decoder) memoryOperand(in *Inst, memory ptx.Operand) error {
	if memory.Kind != ptx.Memory {
		return errOperands
	}
	if in.Mem.Space == ptx.Param && (!d.src.Entry || d.inLocal(memory.Elems[0])) {
		in.Mem.Space = ptx.Local
	}
	var err error
	in.A, in.AW, err = d.source(memory.Elems[0], ptx.B64)
	in.Imm = uint64(memory.Offset)
	if err == nil && in.AW != lanes.Width32 && in.AW != lanes.Width64 {
		return errOperands
	}
	return err
}

// inLocal tells whether op is the address of a .param variable in a body.
func (d *decoder) inLocal(op ptx.Operand) bool {
	return op.Kind == ptx.Address && op.Of == ptx.FunctionVar
}

// address returns the register that holds the address of a symbol in its own
// space.
func (d *decoder) address(op ptx.Operand, wd lanes.Width) (uint32, lanes.Width, error) {
	if wd != lanes.Width32 && wd != lanes.Width64 {
		return 0, 0, errOperands
	}
	switch op.Of {
	case ptx.FunctionAddr:
		return d.constant(Preset{Width: wd, Symbol: symbolRef{Function: op.Func}}), wd, nil
	case ptx.ModuleVar:
		return d.constant(Preset{Width: wd, Symbol: symbolRef{Variable: op.Var},
			Value: uint64(op.Offset)}), wd, nil
	case ptx.FunctionVar:
		v := d.src.Vars[op.Index]
		if v.Space == ptx.Shared {
			return d.constant(Preset{Width: wd, Symbol: symbolRef{Variable: v},
				Value: uint64(op.Offset)}), wd, nil
		}
		return d.localAddress(wd, d.fn.varOffsets[op.Index], op.Offset)
	case ptx.ParamVar:
		if d.src.Entry {
			return d.intConstant(uint64(int64(d.src.Params[op.Index].Offset)+op.Offset),
				intOfWidth(wd)), wd, nil
		}
		return d.localAddress(wd, d.fn.ParamOffsets[op.Index], op.Offset)
	case ptx.ResultVar:
		return d.localAddress(wd, d.fn.ResultOffsets[op.Index], op.Offset)
	}
	return 0, 0, errOperands
}

func intOfWidth(wd lanes.Width) ptx.Type {
	if wd == lanes.Width32 {
		return ptx.B32
	}
	return ptx.B64
}

// localAddress returns a register that a call fills with the address of a local
// variable of the frame.
func (d *decoder) localAddress(wd lanes.Width, offset uint64, more int64) (uint32, lanes.Width,
	error) {
	at := offset + uint64(more)
	key := Preset{Width: wd, Value: at, special: "local"}
	if off, ok := d.consts[key]; ok {
		return off, wd, nil
	}
	d.prog.take(presetBytes)
	off := d.newReg(wd)
	d.consts[key] = off
	d.fn.Locals = append(d.fn.Locals, localRegister{off, wd, at})
	return off, wd, nil
}

// decodeCvta decodes cvta: between a space's own and generic addresses.
func decodeCvta(d *decoder, in *ptx.Inst, m *modifiers) error {
	to := m.has("to")
	space := m.space()
	t := m.typ()
	if t != ptx.U64 && t != ptx.U32 || len(in.Args) != 2 {
		return errType
	}
	if space == ptx.Param && (!d.src.Entry || d.inLocal(in.Args[1])) {
		space = ptx.Local
	}
	window := map[ptx.Space]uint64{ptx.Shared: SharedWindow, ptx.Local: LocalWindow,
		ptx.Param: ParamWindow}[space]
	switch {
	case space == ptx.Generic:
		return errType
	case window == 0:
		return d.compute("mov."+sizeKey("mov", t), scalar.Identity, in.Args, t, t)
	case to:
		return d.compute("", func(a, _, _ uint64) uint64 { return a - window }, in.Args, t, t)
	case t == ptx.U32:
		return errType
	}
	return d.compute("", func(a, _, _ uint64) uint64 { return a + window }, in.Args, t, t)
}

// decodeIsspacep decodes isspacep: whether a generic address is in a space.
func decodeIsspacep(d *decoder, in *ptx.Inst, m *modifiers) error {
	space := m.space()
	window := uint64(math.MaxUint64)
	switch space {
	case ptx.Global:
		window = 0
	case ptx.Shared:
		window = SharedWindow >> WindowShift
	case ptx.Local:
		window = LocalWindow >> WindowShift
	case ptx.Param:
		window = ParamWindow >> WindowShift
	case ptx.Const:
	default:
		return errType
	}
	f := func(a, _, _ uint64) uint64 { return scalar.Bit(a>>WindowShift == window) }
	return d.compute("", f, in.Args, ptx.Pred, ptx.U64)
}

// decodeNothing decodes instructions that need no execution.
func decodeNothing(d *decoder, in *ptx.Inst, m *modifiers) error {
	m.words = nil
	return nil
}

// decodeFence decodes membar and fence.
func decodeFence(d *decoder, in *ptx.Inst, m *modifiers) error {
	m.oneOf("sc", "acq_rel", "acquire", "release")
	m.oneOf("cta", "gl", "sys", "gpu", "cluster")
	m.dropPrefix("proxy")
	m.dropPrefix("alias")
	d.emit(Inst{Kind: KindExecute, Op: OpFence})
	return nil
}

// decodeCp decodes cp.async; the bulk and tensor forms aren't supported.
func decodeCp(d *decoder, in *ptx.Inst, m *modifiers) error {
	if !m.has("async") {
		return errType
	}
	if m.has("commit_group") || m.has("wait_group") || m.has("wait_all") {
		return nil
	}
	if m.has("mbarrier") {
		return d.copyArrive(in, m)
	}
	if m.oneOf("ca", "cg") == "" {
		return errors.New("form not supported")
	}
	m.ordering()
	if m.oneOf("shared", "shared::cta") == "" || !m.has("global") || len(in.Args) < 3 ||
		len(in.Args) > 4 {
		return errOperands
	}
	size := in.Args[2]
	if size.Kind != ptx.Int || size.Value != 4 && size.Value != 8 && size.Value != 16 {
		return errOperands
	}
	length := size
	if len(in.Args) == 4 {
		length = in.Args[3]
	}
	decoded := Inst{Kind: KindAccess, Op: OpCopyAsync, More: d.more(More{})}
	decoded.Mem.Space = ptx.Shared
	if err := d.memoryOperand(&decoded, in.Args[0]); err != nil {
		return err
	}
	from := Inst{Mem: Access{Space: ptx.Global}}
	if err := d.memoryOperand(&from, in.Args[1]); err != nil {
		return err
	}
	decoded.Target, decoded.Imm = int32(decoded.Imm), size.Value
	decoded.B, decoded.BW, decoded.More.SourceOffset = from.A, from.AW, from.Imm
	var err error
	if decoded.C, decoded.CW, err = d.source(length, ptx.U32); err != nil ||
		decoded.CW == lanes.WidthPred {
		return errOperands
	}
	d.emit(decoded)
	return nil
}

// copyArrive decodes cp.async.mbarrier.arrive. Copies are done already; without
// .noinc the arrival was added to the count before.
func (d *decoder) copyArrive(in *ptx.Inst, m *modifiers) error {
	noinc := m.has("noinc")
	if !m.has("arrive") || len(in.Args) != 1 {
		return errOperands
	}
	decoded := Inst{Kind: KindAccess, Mem: Access{Space: m.space(), Size: 8}}
	if m.typ() != ptx.B64 {
		return errType
	}
	op := OpMbarrierArrive
	if !noinc {
		op = OpMbarrierInval
	}
	return d.emitMbarrier(decoded, op, nil, in.Args[0], ptx.Operand{Kind: ptx.Int, Value: 1})
}

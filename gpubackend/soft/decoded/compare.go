// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// comparison is what setp and set have in common.
type comparison struct {
	op, combine string
	ftz         bool
}

func (m *modifiers) comparison() comparison {
	return comparison{op: m.oneOf(scalar.Comparisons...), combine: m.oneOf("and", "or", "xor"),
		ftz: m.has("ftz")}
}

// key names the fast version of a comparison.
func (c comparison) key(t ptx.Type) string {
	op := c.op
	switch op {
	case "eq", "ne":
		if !t.Float() {
			return "setp." + op + "." + sizeKey("mov", t)
		}
	case "lo", "ls", "hi", "hs":
		return "setp." + scalar.UnsignedNames[op] + "." + sizeKey("mov", t)
	}
	if c.ftz {
		return ""
	}
	return "setp." + op + "." + sizeKey("", t)
}

// emit computes the comparison of the first two args into a predicate, and
// combines it with the third if there is one. It returns the combined result
// and that of the inverse comparison, combined.
func (c comparison) emit(
	d *decoder, t ptx.Type, args []ptx.Operand, inverse bool,
) (r, q int, err error) {
	f := scalar.Compare(c.op, t, c.ftz)
	if f == nil || t == ptx.Pred || t.Size() > 8 || t == ptx.F16x2 || t == ptx.BF16x2 {
		return 0, 0, errType
	}
	if (c.combine != "") != (len(args) == 3) {
		return 0, 0, errOperands
	}
	r = d.temporary(ptx.Pred)
	result := ptx.Operand{Kind: ptx.Reg, Reg: r}
	if err := d.compute(c.key(t), f, []ptx.Operand{result, args[0], args[1]}, ptx.Pred, t,
		t); err != nil {
		return 0, 0, err
	}
	q = r
	if inverse {
		q = d.temporary(ptx.Pred)
		d.emit(Inst{Compute: lanes.PredNot, Operands: lanes.Operands{D: d.regs[q], A: d.regs[r]}})
	}
	if c.combine == "" {
		return r, q, nil
	}
	with, wd, err := d.source(args[2], ptx.Pred)
	if err != nil || wd != lanes.WidthPred {
		return 0, 0, errOperands
	}
	d.emit(combined(c.combine, d.regs[r], with))
	if inverse {
		d.emit(combined(c.combine, d.regs[q], with))
	}
	return r, q, nil
}

// combined combines a predicate with another one.
func combined(op string, r, with uint32) Inst {
	return Inst{Compute: lanes.PredLogic[op], Operands: lanes.Operands{D: r, A: r, B: with}}
}

// decodeSetp decodes setp with one or two destinations.
func decodeSetp(d *decoder, in *ptx.Inst, m *modifiers) error {
	c := m.comparison()
	t := m.typ()
	if len(in.Args) < 3 {
		return errOperands
	}
	dests := []ptx.Operand{in.Args[0]}
	if in.Args[0].Kind == ptx.Pair {
		dests = in.Args[0].Elems
	}
	if f := scalar.Compare(c.op, t, c.ftz); f != nil && c.combine == "" && len(dests) == 1 &&
		t.Size() <= 8 &&
		t != ptx.F16x2 && t != ptx.BF16x2 && t != ptx.Pred {
		return d.compute(c.key(t), f, in.Args, ptx.Pred, t, t)
	}
	if t == ptx.F16x2 || t == ptx.BF16x2 {
		return d.setpPacked(in, c, t, dests)
	}
	r, q, err := c.emit(d, t, in.Args[1:], len(dests) == 2)
	if err != nil {
		return err
	}
	for i, reg := range []int{r, q}[:len(dests)] {
		off, wd, err := d.dest(dests[i], ptx.Pred)
		if err != nil || wd != lanes.WidthPred {
			return errOperands
		}
		d.emit(Inst{Compute: lanes.PredMov, Operands: lanes.Operands{D: off, A: d.regs[reg]}})
	}
	return nil
}

// setpPacked decodes setp on packed operands: a destination for each half.
func (d *decoder) setpPacked(in *ptx.Inst, c comparison, t ptx.Type, dests []ptx.Operand) error {
	f := scalar.Compare(c.op, scalar.ElementOf(t), c.ftz)
	if f == nil || c.combine != "" || len(dests) != 2 || len(in.Args) != 3 {
		return errType
	}
	// both results go into a register first, since a destination may not be
	// written before the operands are read.
	both := ptx.Operand{Kind: ptx.Reg, Reg: d.temporary(ptx.B32)}
	if err := d.compute("", scalar.Packed(f), []ptx.Operand{both, in.Args[1], in.Args[2]}, ptx.B32,
		t, t); err != nil {
		return err
	}
	for i, dest := range dests {
		half := func(a, _, _ uint64) uint64 { return a >> (16 * i) & 1 }
		if err := d.compute("", half, []ptx.Operand{dest, both}, ptx.Pred, ptx.B32); err != nil {
			return err
		}
	}
	return nil
}

// decodeSet decodes set, which gives all ones or 1.0.
func decodeSet(d *decoder, in *ptx.Inst, m *modifiers) error {
	c := m.comparison()
	dt, t := m.typ(), m.typ()
	if len(in.Args) < 3 {
		return errOperands
	}
	if t == ptx.F16x2 || t == ptx.BF16x2 {
		return d.setPacked(in, c, dt, t)
	}
	r, _, err := c.emit(d, t, in.Args[1:], false)
	if err != nil {
		return err
	}
	one := uint64(0xffffffff)
	switch dt {
	case ptx.F32, ptx.F16, ptx.BF16:
		one = scalar.FormatOf(dt).Encode(1, softfloat.Nearest)
	case ptx.U16, ptx.S16:
		one = 0xffff
	case ptx.U32, ptx.S32:
	default:
		return errType
	}
	f := func(a, _, _ uint64) uint64 { return one & -(a & 1) }
	return d.compute("", f, []ptx.Operand{in.Args[0], {Kind: ptx.Reg, Reg: r}}, dt, ptx.Pred)
}

// setPacked decodes set on both halves of packed operands.
func (d *decoder) setPacked(in *ptx.Inst, c comparison, dt, t ptx.Type) error {
	f := scalar.Compare(c.op, scalar.ElementOf(t), c.ftz)
	if f == nil || c.combine != "" {
		return errType
	}
	one := uint64(0xffff)
	if dt == t {
		one = scalar.FormatOf(t).Encode(1, softfloat.Nearest)
	} else if dt != ptx.U32 && dt != ptx.S32 {
		return errType
	}
	g := scalar.Packed(func(a, b, c uint64) uint64 { return one & -f(a, b, c) })
	return d.compute("", g, in.Args, dt, t, t)
}

// decodeSelp decodes selp: a or b by a predicate.
func decodeSelp(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if t == ptx.NoType || t == ptx.Pred || t.Size() > 8 || t.Size() == 1 {
		return errType
	}
	return d.compute("selp."+sizeKey("mov", t), scalar.SelectIf, in.Args, t, t, t, ptx.Pred)
}

// decodeSlct decodes slct: a if c is not negative, else b.
func decodeSlct(d *decoder, in *ptx.Inst, m *modifiers) error {
	ftz := m.has("ftz")
	t, ct := m.typ(), m.typ()
	if ct != ptx.F32 && ct != ptx.S32 || t.Size() < 2 || t.Size() > 8 {
		return errType
	}
	return d.compute("", scalar.SelectBySign(ct, ftz), in.Args, t, t, t, ct)
}

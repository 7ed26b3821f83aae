// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// together emits an operation with a member mask if the last operand is one (.sync), else for the
// active lanes.
func (d *decoder) together(in Inst, op Op, sync bool, members ptx.Operand) error {
	if sync {
		return d.emitSync(in, op, members)
	}
	in.Kind, in.Op = KindExecute, op
	d.emit(in)
	return nil
}

// decodeVote decodes vote and vote.sync.
func decodeVote(d *decoder, in *ptx.Inst, m *modifiers) error {
	sync := m.has("sync")
	mode := m.oneOf("all", "any", "uni", "ballot")
	t := m.typ()
	want := 2
	if sync {
		want = 3
	}
	if len(in.Args) != want || (mode == "ballot") != (t == ptx.B32) ||
		t != ptx.B32 && t != ptx.Pred {
		return errOperands
	}
	var decoded Inst
	if err := d.operands(&decoded, in.Args[:2], t, ptx.Pred); err != nil {
		return err
	}
	op := map[string]Op{"all": OpVoteAll, "any": OpVoteAny, "uni": OpVoteUni,
		"ballot": OpBallot}[mode]
	if op == OpNone {
		return errType
	}
	return d.together(decoded, op, sync, in.Args[want-1])
}

// decodeShfl decodes shfl and shfl.sync.
func decodeShfl(d *decoder, in *ptx.Inst, m *modifiers) error {
	sync := m.has("sync")
	mode := m.oneOf("up", "down", "bfly", "idx")
	t := m.typ()
	want := 4
	if sync {
		want = 5
	}
	if t.Size() != 4 || mode == "" || len(in.Args) != want {
		return errOperands
	}
	decoded := Inst{More: d.more(More{})}
	args := append([]ptx.Operand(nil), in.Args...)
	if args[0].Kind == ptx.Pair {
		p, wd, err := d.dest(args[0].Elems[1], ptx.Pred)
		if err != nil || wd != lanes.WidthPred {
			return errOperands
		}
		decoded.More.Regs = []uint32{p}
		args[0] = args[0].Elems[0]
	}
	if err := d.operands(&decoded, args[:4], t, t, ptx.B32, ptx.B32); err != nil {
		return err
	}
	op := map[string]Op{"up": OpShuffleUp, "down": OpShuffleDown, "bfly": OpShuffleBfly,
		"idx": OpShuffleIdx}[mode]
	return d.together(decoded, op, sync, args[want-1])
}

// decodeMatch decodes match.sync.
func decodeMatch(d *decoder, in *ptx.Inst, m *modifiers) error {
	mode := m.oneOf("any", "all")
	sync := m.has("sync")
	t := m.typ()
	if mode == "" || !sync || t != ptx.B32 && t != ptx.B64 || len(in.Args) != 3 {
		return errOperands
	}
	decoded := Inst{More: d.more(More{})}
	args := append([]ptx.Operand(nil), in.Args...)
	if args[0].Kind == ptx.Pair && mode == "all" {
		p, wd, err := d.dest(args[0].Elems[1], ptx.Pred)
		if err != nil || wd != lanes.WidthPred {
			return errOperands
		}
		decoded.More.Regs = []uint32{p}
		args[0] = args[0].Elems[0]
	}
	if err := d.operands(&decoded, args[:2], ptx.B32, t); err != nil {
		return err
	}
	op := OpMatchAny
	if mode == "all" {
		op = OpMatchAll
	}
	return d.emitSync(decoded, op, args[2])
}

// decodeRedux decodes redux.sync.
func decodeRedux(d *decoder, in *ptx.Inst, m *modifiers) error {
	if !m.has("sync") || len(in.Args) != 3 {
		return errOperands
	}
	op := m.oneOf("add", "min", "max", "and", "or", "xor")
	t := m.typ()
	if t != ptx.U32 && t != ptx.S32 && t != ptx.B32 {
		return errType
	}
	f := scalar.Integer(op, t)
	if f == nil {
		return errType
	}
	decoded := Inst{More: d.more(More{Scalar: f})}
	if err := d.operands(&decoded, in.Args[:2], t, t); err != nil {
		return err
	}
	return d.emitSync(decoded, OpRedux, in.Args[2])
}

// decodeElect decodes elect.sync, which chooses the lowest lane.
func decodeElect(d *decoder, in *ptx.Inst, m *modifiers) error {
	if !m.has("sync") || len(in.Args) != 2 || in.Args[0].Kind != ptx.Pair {
		return errOperands
	}
	reg, rw, err := d.dest(in.Args[0].Elems[0], ptx.B32)
	if err != nil || rw == lanes.WidthPred {
		return errOperands
	}
	p, pw, err := d.dest(in.Args[0].Elems[1], ptx.Pred)
	if err != nil || pw != lanes.WidthPred {
		return errOperands
	}
	return d.emitSync(Inst{Operands: lanes.Operands{D: reg, DW: rw, A: p}}, OpElect, in.Args[1])
}

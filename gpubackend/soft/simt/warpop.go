// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// syncOp describes an instruction that lanes execute together; exec is nil for
// bar.warp.sync.
type syncOp struct {
	mask      uint32
	maskWidth lanes.Width
	exec      execFunc
}

// together emits exec as an instruction with a member mask if the last operand
// is one (.sync), else for the active lanes.
func (d *decoder) together(in inst, exec execFunc, sync bool, members ptx.Operand) error {
	if sync {
		return d.emitSync(in, exec, members)
	}
	in.kind, in.exec = kindMemory, exec
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
	var decoded inst
	if err := d.operands(&decoded, in.Args[:2], t, ptx.Pred); err != nil {
		return err
	}
	exec := map[string]execFunc{"all": execVoteAll, "any": execVoteAny, "uni": execVoteUni,
		"ballot": execBallot}[mode]
	if exec == nil {
		return errType
	}
	return d.together(decoded, exec, sync, in.Args[want-1])
}

func execVoteAll(w *warp, in *inst, m uint32) {
	lanes.SetPred(w.Pred(in.D), m, -uint32(scalar.Bit(*w.Pred(in.A)&m == m)))
}

func execVoteAny(w *warp, in *inst, m uint32) {
	lanes.SetPred(w.Pred(in.D), m, -uint32(scalar.Bit(*w.Pred(in.A)&m != 0)))
}

func execVoteUni(w *warp, in *inst, m uint32) {
	p := *w.Pred(in.A) & m
	lanes.SetPred(w.Pred(in.D), m, -uint32(scalar.Bit(p == 0 || p == m)))
}

func execBallot(w *warp, in *inst, m uint32) { w.Fill(in.D, in.DW, uint64(*w.Pred(in.A)&m), m) }

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
	decoded := inst{more: d.more(instMore{})}
	args := append([]ptx.Operand(nil), in.Args...)
	if args[0].Kind == ptx.Pair {
		p, wd, err := d.dest(args[0].Elems[1], ptx.Pred)
		if err != nil || wd != lanes.WidthPred {
			return errOperands
		}
		decoded.more.regs = []uint32{p}
		args[0] = args[0].Elems[0]
	}
	if err := d.operands(&decoded, args[:4], t, t, ptx.B32, ptx.B32); err != nil {
		return err
	}
	source := map[string]func(lane, b, clamp, segment uint32) (from uint32, ok bool){
		"up": shflUp, "down": shflDown, "bfly": shflBfly, "idx": shflIdx}[mode]
	exec := func(w *warp, in *inst, m uint32) { w.shuffle(in, m, source) }
	return d.together(decoded, exec, sync, args[want-1])
}

// shuffle lets each lane read a register of another one.
func (w *warp) shuffle(
	in *inst, m uint32, source func(lane, b, clamp, segment uint32) (uint32, bool),
) {
	var a, b, c, r [lanes.Count]uint64
	w.Load(in.A, in.AW, &a)
	w.Load(in.B, in.BW, &b)
	w.Load(in.C, in.CW, &c)
	var valid uint32
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		clamp, segment := uint32(c[i])&31, uint32(c[i])>>8&31
		from, ok := source(uint32(i), uint32(b[i])&31, clamp, segment)
		if !ok {
			from = uint32(i)
		} else {
			valid |= 1 << i
		}
		r[i] = a[from&(lanes.Count-1)]
	}
	w.Store(in.D, in.DW, &r, m)
	if len(in.more.regs) > 0 {
		lanes.SetPred(w.Pred(in.more.regs[0]), m, valid)
	}
}

// segmentEnd is the last lane that a shuffle may read.
func segmentEnd(lane, clamp, segment uint32) uint32 { return lane&segment | clamp&^segment }

func shflUp(lane, b, clamp, segment uint32) (uint32, bool) {
	return lane - b, int32(lane-b) >= int32(segmentEnd(lane, clamp, segment))
}

func shflDown(lane, b, clamp, segment uint32) (uint32, bool) {
	return lane + b, lane+b <= segmentEnd(lane, clamp, segment)
}

func shflBfly(lane, b, clamp, segment uint32) (uint32, bool) {
	return lane ^ b, lane^b <= segmentEnd(lane, clamp, segment)
}

func shflIdx(lane, b, clamp, segment uint32) (uint32, bool) {
	from := lane&segment | b&^segment
	return from, from <= segmentEnd(lane, clamp, segment)
}

// decodeMatch decodes match.sync.
func decodeMatch(d *decoder, in *ptx.Inst, m *modifiers) error {
	mode := m.oneOf("any", "all")
	sync := m.has("sync")
	t := m.typ()
	if mode == "" || !sync || t != ptx.B32 && t != ptx.B64 || len(in.Args) != 3 {
		return errOperands
	}
	decoded := inst{more: d.more(instMore{})}
	args := append([]ptx.Operand(nil), in.Args...)
	if args[0].Kind == ptx.Pair && mode == "all" {
		p, wd, err := d.dest(args[0].Elems[1], ptx.Pred)
		if err != nil || wd != lanes.WidthPred {
			return errOperands
		}
		decoded.more.regs = []uint32{p}
		args[0] = args[0].Elems[0]
	}
	if err := d.operands(&decoded, args[:2], ptx.B32, t); err != nil {
		return err
	}
	exec := execMatchAny
	if mode == "all" {
		exec = execMatchAll
	}
	return d.emitSync(decoded, exec, args[2])
}

func execMatchAny(w *warp, in *inst, m uint32) {
	var a, r [lanes.Count]uint64
	w.Load(in.A, in.AW, &a)
	for i := range a {
		for s := m; s != 0; s &= s - 1 {
			if k := bits.TrailingZeros32(s) & (lanes.Count - 1); a[k] == a[i] {
				r[i] |= 1 << k
			}
		}
	}
	w.Store(in.D, in.DW, &r, m)
}

func execMatchAll(w *warp, in *inst, m uint32) {
	var a [lanes.Count]uint64
	w.Load(in.A, in.AW, &a)
	same := m
	for s := m; s != 0; s &= s - 1 {
		if a[lanes.First(s)] != a[lanes.First(m)] {
			same = 0
		}
	}
	w.Fill(in.D, in.DW, uint64(same), m)
	if len(in.more.regs) > 0 {
		lanes.SetPred(w.Pred(in.more.regs[0]), m, same)
	}
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
	var decoded inst
	if err := d.operands(&decoded, in.Args[:2], t, t); err != nil {
		return err
	}
	exec := func(w *warp, in *inst, m uint32) {
		var a [lanes.Count]uint64
		w.Load(in.A, in.AW, &a)
		r := a[lanes.First(m)]
		for s := m & (m - 1); s != 0; s &= s - 1 {
			r = f(r, a[lanes.First(s)], 0)
		}
		w.Fill(in.D, in.DW, r, m)
	}
	return d.emitSync(decoded, exec, in.Args[2])
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
	exec := func(w *warp, in *inst, m uint32) {
		lanes.SetPred(w.Pred(in.A), m, m&-m)
		w.Fill(in.D, in.DW, uint64(lanes.First(m)), m)
	}
	return d.emitSync(inst{Operands: lanes.Operands{D: reg, DW: rw, A: p}}, exec, in.Args[1])
}

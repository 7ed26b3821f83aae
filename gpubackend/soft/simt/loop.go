// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
)

// execute runs the current split until it ends, waits, or meets another one. It
// reports true when the turn of the warp is over.
func (w *warp) execute() bool {
	code := w.prog.Code
	pc := w.pc
	var n uint64
	for {
		if pc >= w.limit {
			w.setAside(pc, n)
			return false
		}
		in := &code[pc]
		m := w.active & (*w.Pred(in.Guard) ^ in.GuardFlip)
		n++
		if in.Kind == decoded.KindCompute { // most are: looked at before the others
			if m != 0 {
				in.Compute(w.Registers, &in.Operands, m|w.dead)
			}
			pc++
			continue
		}
		if m == 0 { // nobody executes it
			pc++
			continue
		}
		switch in.Kind {
		case decoded.KindAccess:
			w.pc = pc
			loadstore.Accesses[in.Op](&w.Unit, in, m)
			if in.Mem.Waits {
				w.fuel -= spinCost
			}
		case decoded.KindExecute:
			w.pc = pc
			execs[in.Op](w, in, m)
		case decoded.KindBranch:
			if m == w.active && (in.Target > pc || w.goesBack()) {
				pc = in.Target
				continue
			}
			fallthrough
		default:
			w.count(n)
			n = 0
			if !w.steer(in, pc, m) {
				return w.fault != nil || w.fuel <= 0
			}
			pc = w.pc
			w.setLimit()
			continue
		}
		if w.fault != nil {
			w.count(n)
			return true
		}
		pc++
	}
}

// goesBack counts a backward branch of all lanes, and says whether they go on at once: if their
// turn isn't over, and no lanes wait that they could meet.
func (w *warp) goesBack() bool {
	w.fuel--
	return w.fuel > 0 && len(w.splits) == 0
}

// setAside makes the current split wait at pc, after n more instructions.
func (w *warp) setAside(pc int32, n uint64) {
	w.pc = pc
	w.count(n)
	w.push(split{pc: pc, mask: w.active, frame: w.frame})
}

// steer executes a control instruction for the lanes of m, and says whether they go on at once.
// Lanes whose guard is clear go on by themselves.
func (w *warp) steer(in *decoded.Inst, pc int32, m uint32) bool {
	if in.Kind == decoded.KindBranch {
		return w.branch(in, pc, m)
	}
	w.pc = pc
	if m != w.active {
		w.push(split{pc: pc + 1, mask: w.active &^ m, frame: w.frame})
		w.active = m
	}
	return w.control(in, m)
}

// branch executes a branch that not all lanes take, or after which others may get their turn.
func (w *warp) branch(in *decoded.Inst, pc int32, m uint32) bool {
	if m == w.active {
		pc = in.Target
	} else {
		pc = w.diverge(pc, in.Target, m)
	}
	if w.fuel <= 0 {
		w.setAside(pc, 0)
		w.fair = true
		return false
	}
	w.pc = pc
	return true
}

// diverge sets those lanes aside that are ahead after a branch that only the lanes of m took, and
// returns where the others go on.
func (w *warp) diverge(pc, target int32, m uint32) int32 {
	there := split{pc: target, mask: m, frame: w.frame}
	here := split{pc: pc + 1, mask: w.active &^ m, frame: w.frame}
	if target <= pc {
		w.fuel--
		there, here = here, there
	}
	w.push(there)
	w.active = here.mask
	return here.pc
}

// control executes an instruction that isn't a plain computation, for the lanes
// of m, which are all the active ones. It reports false when the current split
// doesn't go on.
func (w *warp) control(in *decoded.Inst, m uint32) bool {
	switch in.Kind {
	case decoded.KindBranchIndex:
		return w.branchIndex(in, m)
	case decoded.KindCall:
		return w.call(in, m)
	case decoded.KindReturn:
		return w.ret(m)
	case decoded.KindExit:
		w.exit(m)
		return false
	case decoded.KindBarrier:
		return w.block.arrive(w, in, m)
	case decoded.KindSync:
		return w.sync(in, m)
	case decoded.KindYield:
		w.fuel = 0
		w.push(split{pc: w.pc + 1, mask: m, frame: w.frame})
		w.fair = true
		return false
	}
	w.failAt(lanes.First(m), cudaabi.ErrorIllegalInstruction, "instruction of unknown kind")
	return false
}

// branchIndex is brx.idx: the lanes go where their index says.
func (w *warp) branchIndex(in *decoded.Inst, m uint32) bool {
	targets := in.More.Targets
	for rest := m; rest != 0; {
		lane := lanes.First(rest)
		index := w.Lane(in.A, in.AW, lane)
		same := uint32(0)
		for i := range lanes.Count {
			if rest>>i&1 != 0 && w.Lane(in.A, in.AW, i) == index {
				same |= 1 << i
			}
		}
		if index >= uint64(len(targets)) {
			w.failAt(lane, cudaabi.ErrorInvalidPC, "branch index %d of %d", index, len(targets))
			return false
		}
		w.push(split{pc: targets[index], mask: same, frame: w.frame})
		if targets[index] <= w.pc {
			w.fuel--
		}
		rest &^= same
	}
	return false
}

// exit ends the lanes of m.
func (w *warp) exit(m uint32) {
	w.dead |= m
	w.active = 0
	w.block.ended(w, m)
}

// sync executes an instruction that all lanes of a member mask execute together. Lanes may name
// different masks: each mask is a group of its own, such as a tile of a cooperative group.
func (w *warp) sync(in *decoded.Inst, m uint32) bool {
	op := &in.More.Sync
	ready := uint32(0)
	for rest := m; rest != 0; {
		members := uint32(w.Lane(op.Mask, op.MaskWidth, lanes.First(rest)))
		group := w.naming(op, rest, members)
		rest &^= group
		if missing := members &^ w.dead &^ group; missing != 0 && !w.forced {
			w.await(op, group, members)
			continue
		}
		if op.Op != decoded.OpNone {
			execs[op.Op](w, in, group)
		}
		ready |= group
	}
	w.forced = false
	if ready == m {
		w.pc++
		return true
	}
	if ready != 0 {
		w.push(split{pc: w.pc + 1, mask: ready, frame: w.frame})
	}
	return false
}

// naming returns the lanes of m that name those members.
func (w *warp) naming(op *decoded.Sync, m, members uint32) uint32 {
	same := uint32(0)
	for s := m; s != 0; s &= s - 1 {
		if i := lanes.First(s); uint32(w.Lane(op.Mask, op.MaskWidth, i)) == members {
			same |= 1 << i
		}
	}
	return same
}

// await lets lanes wait for the other members.
func (w *warp) await(op *decoded.Sync, group, members uint32) {
	w.fuel-- // whatever brings them here again, others get their turn, and the launch may end
	state := splitSync
	if op.Op == decoded.OpNone {
		state = splitWarpBarrier
	}
	w.push(split{pc: w.pc, mask: group, frame: w.frame, state: state, wait: members})
}

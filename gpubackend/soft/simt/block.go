// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// block is a thread block at work. It belongs to one goroutine.
type block struct {
	runner *runner
	run    *launchRun
	id     Dim
	sm     uint32
	warps  []*warp
	// live counts the threads that haven't ended.
	live       int
	barriers   [barriers]barrier
	shared     []uint64
	sharedBase uintptr
}

// barriers is the number of barriers of a block.
const barriers = 16

// barrier is one of a block's barriers.
type barrier struct {
	// arrived counts threads; expected is 0 for all threads of the block.
	arrived, expected int
	// Results of bar.red.
	count    uint32
	all, any bool
}

// newBlock makes a block whose memory and warps serve one grid block after the
// other.
func (k *runner) newBlock() *block {
	b := &block{runner: k, run: k.run}
	threads := k.run.Block.Count()
	b.shared, b.sharedBase = loadstore.NewBytes(k.run.shared.size)
	for i := range uint32((threads + lanes.Count - 1) / lanes.Count) {
		w := &warp{prog: k.run.prog, block: b, index: i}
		w.Unit = loadstore.Unit{Cache: &k.cache,
			Shared: b.sharedBase, SharedSize: k.run.shared.size,
			Params: k.run.params.base, ParamSize: uint64(len(k.run.Params)), Fail: w.failAt}
		b.warps = append(b.warps, w)
	}
	return b
}

// start makes the block ready to execute the grid's block id.
func (b *block) start(id Dim, number uint64) {
	b.id = id
	b.runner.freeFrames()
	b.sm = b.run.sms.first + uint32(number%uint64(b.run.sms.used))
	b.barriers = [barriers]barrier{}
	b.clearReserved()
	threads := int(b.run.Block.Count())
	b.live = threads
	for i, w := range b.warps {
		w.dead = 0
		if left := threads - i*lanes.Count; left < lanes.Count {
			w.dead = lanes.All << left
		}
		w.splits = w.splits[:0]
		w.fault, w.fair, w.forced, w.tick = nil, false, false, 0
		root := w.root
		fresh := root == nil
		if fresh {
			root = b.runner.newFrame(b.run.fn)
			w.root = root
			w.needLocal(b.run.fn.LocalSize)
		}
		w.enter(root)
		w.fillSpecials(root, fresh)
		w.fillLocals(root)
		w.splits = append(w.splits, split{pc: b.run.fn.Entry, mask: ^w.dead, frame: root})
	}
}

// execute runs the block's warps in turns until all have ended.
func (b *block) execute() *KernelError {
	for b.live > 0 {
		progress := false
		for _, w := range b.warps {
			if !w.runnable() {
				continue
			}
			progress = true
			w.run()
			if w.fault != nil {
				return w.fault
			}
			if b.run.stop.Load() {
				return nil
			}
		}
		if b.run.Cooperative {
			b.runner.rest()
		}
		if !progress && !b.force() {
			return b.deadlock()
		}
	}
	return nil
}

func (b *block) force() bool {
	for _, w := range b.warps {
		if w.force() {
			return true
		}
	}
	return false
}

// deadlock is the fault of a block whose threads all wait for others.
func (b *block) deadlock() *KernelError {
	for _, w := range b.warps {
		if len(w.splits) > 0 {
			w.pc = w.splits[0].pc
			w.failAt(lanes.First(w.splits[0].mask), cudaabi.ErrorLaunchFailed,
				"all threads of the block wait at barriers")
			return w.fault
		}
	}
	return &KernelError{Code: cudaabi.ErrorLaunchFailed, Detail: "block without threads"}
}

// ended takes the lanes of m out of the count, which may complete barriers.
func (b *block) ended(w *warp, m uint32) {
	b.live -= bits.OnesCount32(m)
	for id := range b.barriers {
		if b.barriers[id].arrived > 0 {
			b.complete(id)
		}
	}
}

// arrive executes a barrier instruction for the lanes of m. It reports whether
// they go on at once.
func (b *block) arrive(w *warp, in *decoded.Inst, m uint32) bool {
	op := &in.More.Barrier
	first := lanes.First(m)
	id := w.Lane(op.ID, op.IDWidth, first)
	if id >= barriers {
		w.failAt(first, cudaabi.ErrorIllegalInstruction, "barrier %d", id)
		return false
	}
	bar := &b.barriers[id]
	if bar.arrived == 0 {
		*bar = barrier{all: true}
	}
	threads := bits.OnesCount32(m)
	if op.CountWidth != 0 {
		bar.expected = int(w.Lane(op.Count, op.CountWidth, first))
		// Barriers with a count are counted in whole warps.
		if m == ^w.dead {
			threads = lanes.Count
		}
	}
	bar.arrived += threads
	if op.Reduce != "" {
		p := *w.Pred(op.Pred)
		bar.count += uint32(bits.OnesCount32(p & m))
		bar.all = bar.all && p&m == m
		bar.any = bar.any || p&m != 0
	}
	if op.Arrive {
		w.pc++
		b.complete(int(id))
		return true
	}
	w.push(split{pc: w.pc, mask: m, frame: w.frame, state: splitBarrier, barrier: int(id)})
	b.complete(int(id))
	return false
}

// complete releases barrier id if all that it waits for have arrived.
func (b *block) complete(id int) {
	bar := &b.barriers[id]
	expected := bar.expected
	if expected == 0 {
		expected = b.live
	}
	if bar.arrived < expected {
		return
	}
	for _, w := range b.warps {
		for i := range w.splits {
			s := &w.splits[i]
			if s.state == splitBarrier && s.barrier == id {
				w.released(s, bar)
			}
		}
	}
	*bar = barrier{}
}

// released lets a split go on after a barrier, with the result of bar.red.
func (w *warp) released(s *split, bar *barrier) {
	in := &w.prog.Code[s.pc]
	r := s.frame.Registers
	switch in.More.Barrier.Reduce {
	case "popc":
		r.Fill(in.D, in.DW, uint64(bar.count), s.mask)
	case "and":
		r.Fill(in.D, in.DW, scalar.Bit(bar.all), s.mask)
	case "or":
		r.Fill(in.D, in.DW, scalar.Bit(bar.any), s.mask)
	}
	s.state = splitReady
	s.pc++
}

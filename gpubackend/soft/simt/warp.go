// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
)

// warp is 32 threads that execute together. The fields up to splits are those of the
// split at work; the other splits of the warp are in splits.
type warp struct {
	loadstore.Unit // with the registers of frame

	prog   *decoded.Program
	block  *block
	frame  *frame
	pc     int32
	active uint32
	// dead are the lanes that ended or never were.
	dead uint32
	// limit is the next instruction at which another split waits.
	limit  int32
	index  uint32
	splits []split
	// fuel counts down to the end of the turn; fair asks for the split that has waited longest.
	fuel int32
	fair bool
	tick uint32
	// forced lets the next sync go on without the missing lanes.
	forced bool

	fault *KernelError
	fence atomic.Uint32

	// root is the frame of the kernel, kept from block to block.
	root *frame

	local []uint64 // keeps their local memory

	issued, threadInsts uint64
}

// splitState says what a split waits for.
type splitState uint8

const (
	splitReady splitState = iota
	// splitSync waits for the lanes in wait to come to the same instruction.
	splitSync
	// splitWarpBarrier waits for the lanes in wait to come to any bar.warp.sync.
	splitWarpBarrier
	// splitBarrier waits for other warps.
	splitBarrier
)

// split is a set of lanes of a warp that have the same program counter.
type split struct {
	pc      int32
	mask    uint32
	frame   *frame
	state   splitState
	wait    uint32
	barrier int
	tick    uint32
}

const (
	// fuelPerTurn is how many backward branches a split takes before others get a turn; spinCost is
	// how many branches an access counts for by which programs wait.
	fuelPerTurn = 4096
	spinCost    = 64
	noLimit     = math.MaxInt32
)

// push adds the current lanes in mask to the waiting splits.
func (w *warp) push(s split) {
	s.tick = w.tick
	w.splits = append(w.splits, s)
}

// before tells which split runs first: the one deepest in calls, then the one
// that is furthest behind.
func (s *split) before(o *split) bool {
	if s.frame.depth != o.frame.depth {
		return s.frame.depth > o.frame.depth
	}
	return s.pc < o.pc
}

// pick makes a split that can run the current one. It reports false if there is
// none.
func (w *warp) pick() bool {
	if len(w.splits) > 1 {
		w.merge()
	}
	w.wakeWarpBarrier()
	best := -1
	for i := range w.splits {
		s := &w.splits[i]
		if s.state == splitSync && s.wait&^w.dead&^s.mask == 0 {
			s.state = splitReady
		}
		if s.state != splitReady {
			continue
		}
		switch {
		case best < 0:
			best = i
		case w.fair && s.tick < w.splits[best].tick, !w.fair && s.before(&w.splits[best]):
			best = i
		}
	}
	if best < 0 {
		w.active = 0
		return false
	}
	w.fair = false
	w.tick++
	s := w.splits[best]
	last := len(w.splits) - 1
	w.splits[best] = w.splits[last]
	w.splits = w.splits[:last]
	w.pc, w.active = s.pc, s.mask
	w.enter(s.frame)
	w.setLimit()
	return true
}

// enter makes f the current frame.
func (w *warp) enter(f *frame) {
	w.frame = f
	w.Registers = f.Registers
}

// setLimit finds where the current split meets another one.
func (w *warp) setLimit() {
	w.limit = noLimit
	for i := range w.splits {
		s := &w.splits[i]
		if s.pc > w.pc && s.pc < w.limit && s.frame == w.frame && s.state != splitBarrier {
			w.limit = s.pc
		}
	}
}

// merge unites splits that are at the same instruction, except those that wait there for different
// lanes: these would part again at once, forever.
func (w *warp) merge() {
	for i := 0; i < len(w.splits); i++ {
		for j := i + 1; j < len(w.splits); j++ {
			a, b := &w.splits[i], &w.splits[j]
			if a.pc != b.pc || a.frame != b.frame || a.state == splitBarrier ||
				b.state == splitBarrier ||
				a.state != splitReady && b.state != splitReady && a.wait != b.wait {
				continue
			}
			a.mask |= b.mask
			a.state = splitReady
			last := len(w.splits) - 1
			*b = w.splits[last]
			w.splits = w.splits[:last]
			j--
		}
	}
}

// wakeWarpBarrier lets splits go on whose bar.warp.sync all lanes have reached that it waits for.
func (w *warp) wakeWarpBarrier() {
	var there uint32
	for i := range w.splits {
		if w.splits[i].state == splitWarpBarrier {
			there |= w.splits[i].mask
		}
	}
	if there == 0 {
		return
	}
	for i := range w.splits {
		if s := &w.splits[i]; s.state == splitWarpBarrier && s.wait&^w.dead&^there == 0 {
			s.state = splitReady
			s.pc++
		}
	}
}

// force lets a split go on that waits for lanes that won't come. It is the last resort for programs
// whose behaviour is undefined.
func (w *warp) force() bool {
	for i := range w.splits {
		switch s := &w.splits[i]; s.state {
		case splitSync:
			s.state = splitReady
			w.forced = true
			return true
		case splitWarpBarrier:
			s.state = splitReady
			s.pc++
			return true
		}
	}
	return false
}

// runnable tells whether a split can run.
func (w *warp) runnable() bool {
	for i := range w.splits {
		s := &w.splits[i]
		if s.state == splitReady || s.state != splitBarrier && s.wait&^w.dead&^s.mask == 0 {
			return true
		}
	}
	return false
}

// run executes until all splits wait, the warp has ended, or its turn is over.
func (w *warp) run() {
	w.fuel = fuelPerTurn
	for w.fault == nil && w.pick() {
		if w.execute() {
			return
		}
	}
}

// count adds the instructions issued since the last change of the mask.
func (w *warp) count(n uint64) {
	w.issued += n
	w.threadInsts += n * uint64(bits.OnesCount32(w.active))
}

// failAt records a fault of the current instruction.
func (w *warp) failAt(lane int, code int, format string, args ...any) {
	if w.fault != nil {
		return
	}
	line := w.prog.Code[w.pc].Line
	w.fault = &KernelError{Code: code,
		Detail: fmt.Sprintf("%s: kernel %s, ptx line %d, block %v, thread %v",
			fmt.Sprintf(format, args...), w.block.run.Kernel.Name, line, w.block.id,
			w.tid(uint32(lane)))}
}

// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// function is a decoded function.
type function struct {
	src   *ptx.Function
	index int
	entry int32
	// frameSize is the size of the registers.
	frameSize uint32
	// localSize is the local memory of a call: variables, parameters, results.
	localSize     uint64
	varOffsets    []uint64
	paramOffsets  []uint64
	resultOffsets []uint64
	// consts, specials and locals are the registers filled before execution.
	consts   []presetRegister
	specials []specialRegister
	locals   []localRegister
	// calls are the functions called or named, indirect that others may be.
	calls    map[*ptx.Function]bool
	indirect bool
	// reserves is set for one that reads where reserved shared memory is.
	reserves bool
}

// presetRegister is where a preset is.
type presetRegister struct {
	off uint32
	preset
}

// localRegister is a register to be filled with an address in the call's local
// memory.
type localRegister struct {
	off uint32
	wd  lanes.Width
	at  uint64
}

// layout places variables, parameters and results in local memory.
func (fn *function) layout() {
	place := func(size, align uint64) uint64 {
		at := (fn.localSize + align - 1) &^ (align - 1)
		fn.localSize = at + size
		return at
	}
	for _, v := range fn.src.Vars {
		at := uint64(0)
		if v.Space != ptx.Shared {
			at = place(v.Size, uint64(v.Align))
		}
		fn.varOffsets = append(fn.varOffsets, at)
	}
	if !fn.src.Entry {
		for _, p := range fn.src.Params {
			fn.paramOffsets = append(fn.paramOffsets, place(uint64(p.Size), uint64(p.Align)))
		}
		for _, p := range fn.src.Results {
			fn.resultOffsets = append(fn.resultOffsets, place(uint64(p.Size), uint64(p.Align)))
		}
	}
	fn.localSize = (fn.localSize + 15) &^ 15
}

// frame holds the registers of a call. Lanes that make a call together share it.
type frame struct {
	lanes.Registers
	fn     *function
	slab   []uint64
	parent *frame
	site   *callSite
	// back is the instruction after the call.
	back  int32
	depth int32
	// live are the lanes that haven't returned.
	live uint32
	// free is set while nothing uses the frame.
	free bool
	// local is where the call's local memory begins.
	local uint64
}

// callSite is a decoded call.
type callSite struct {
	// target is the function called; nil for an indirect call through the
	// register pointer, and for builtin functions.
	target  *ptx.Function
	pointer uint32
	builtin builtinFunc
	// args and results are the variables of the caller.
	args, results []callValue
}

// callValue is a variable of the caller that is passed or receives a result.
type callValue struct{ at, size uint64 }

// maxDepth bounds the depth of calls.
const maxDepth = 1 << 14

// newFrame returns a frame for fn with its constants filled in.
func (k *worker) newFrame(fn *function) *frame {
	f := &frame{fn: fn}
	f.slab, f.Registers = lanes.NewRegisters(int(fn.frameSize))
	*f.Pred(trueReg) = lanes.All
	for _, c := range fn.consts {
		value := c.preset.value
		switch {
		case c.preset.symbol.variable != nil:
			value += k.run.addressOfVar(c.preset.symbol.variable)
		case c.preset.symbol.function != nil:
			value += k.run.prog.functionAddress(c.preset.symbol.function)
		}
		if c.preset.wd == lanes.WidthPred {
			*f.Pred(c.off) = uint32(value)
			continue
		}
		f.Fill(c.off, c.preset.wd, value, lanes.All)
	}
	return f
}

// fillSpecials fills in the special registers of f, which must be current: all
// of them, or those only that change from block to block.
func (w *warp) fillSpecials(f *frame, all bool) {
	for _, s := range f.fn.specials {
		if all || s.value.block != nil {
			w.fillSpecial(s)
		}
	}
}

func (w *warp) fillSpecial(s specialRegister) {
	switch {
	case s.value.block != nil:
		w.Fill(s.off, s.wd, s.value.block(w.block), lanes.All)
	case s.value.launch != nil:
		w.Fill(s.off, s.wd, s.value.launch(w.block.run), lanes.All)
	default:
		var r [lanes.Count]uint64
		for i := range r {
			r[i] = s.value.lane(w, uint32(i))
		}
		w.Store(s.off, s.wd, &r, lanes.All)
	}
}

// fillLocals fills in the addresses of local variables.
func (w *warp) fillLocals(f *frame) {
	for _, l := range f.fn.locals {
		w.Fill(l.off, l.wd, f.local+l.at, lanes.All)
	}
}

// call enters a function for the lanes of m. Lanes that call another function
// through a pointer stay behind and call it afterwards.
func (w *warp) call(in *inst, m uint32) bool {
	site := in.more.call
	if site.builtin != nil {
		site.builtin(w, site, m)
		w.pc++
		return w.fault == nil
	}
	target := site.target
	if target == nil {
		first := lanes.First(m)
		pointer := w.Lane(site.pointer, lanes.Width64, first)
		if target = w.prog.functionAt(pointer, site); target == nil {
			w.failAt(first, cudaabi.ErrorInvalidPC, "call of address %#x", pointer)
			return false
		}
		var others uint32
		for s := m; s != 0; s &= s - 1 {
			if i := lanes.First(s); w.Lane(site.pointer, lanes.Width64, i) != pointer {
				others |= 1 << i
			}
		}
		if others != 0 {
			w.push(split{pc: w.pc, mask: others, frame: w.frame})
			m &^= others
			w.active = m
		}
	}
	return w.enterFunction(w.prog.functions[target], site, m)
}

func (w *warp) enterFunction(fn *function, site *callSite, m uint32) bool {
	caller := w.frame
	local := caller.local + caller.fn.localSize
	if caller.depth >= maxDepth || local+fn.localSize > w.block.run.StackBytes {
		w.failAt(lanes.First(m), cudaabi.ErrorLaunchFailed, "stack overflow at depth %d",
			caller.depth)
		return false
	}
	var f *frame
	if w.needLocal(local + fn.localSize) {
		f = w.block.worker.callFrame(fn)
	}
	if f == nil {
		w.failAt(lanes.First(m), cudaabi.ErrorOutOfMemory, "no host memory at depth %d",
			caller.depth)
		return false
	}
	f.parent, f.site, f.back, f.depth, f.live, f.local = caller, site, w.pc+1, caller.depth+1, m,
		local
	for i, arg := range site.args {
		w.copyLocal(local+fn.paramOffsets[i], caller.local+arg.at, arg.size, m)
	}
	w.enter(f)
	w.fillSpecials(f, true)
	w.fillLocals(f)
	w.pc = fn.entry
	w.fuel--
	return true
}

// ret leaves a function, or ends the lanes at the outermost level.
func (w *warp) ret(m uint32) bool {
	f := w.frame
	if f.parent == nil {
		w.exit(m)
		return false
	}
	for i, result := range f.site.results {
		w.copyLocal(f.parent.local+result.at, f.local+f.fn.resultOffsets[i], result.size, m)
	}
	w.push(split{pc: f.back, mask: m, frame: f.parent})
	if f.live &^= m; f.live&^w.dead == 0 {
		w.block.worker.freeFrame(f)
	}
	return false
}

// copyLocal copies between places in the lanes' local memory.
func (w *warp) copyLocal(to, from, size uint64, m uint32) {
	for s := m; s != 0; s &= s - 1 {
		base := w.localBase + uintptr(w.localStride)*uintptr(bits.TrailingZeros32(s))
		copyBytes(base+uintptr(to), base+uintptr(from), size)
	}
}

// needLocal makes sure that each lane has size bytes of local memory, for which there may be no
// memory of the host's.
func (w *warp) needLocal(size uint64) bool {
	if size <= w.localStride {
		return true
	}
	stride := localStride(size)
	if !w.block.worker.takeLocal(w, stride) {
		return false
	}
	slab, base := newBytes(stride * lanes.Count)
	for i := range uintptr(lanes.Count) {
		if w.localStride > 0 {
			copyBytes(base+i*uintptr(stride), w.localBase+i*uintptr(w.localStride), w.localStride)
		}
	}
	w.local, w.localBase, w.localStride = slab, base, stride
	return true
}

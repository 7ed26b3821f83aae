// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
)

// frame holds the registers of a call. Lanes that make a call together share it.
type frame struct {
	lanes.Registers
	fn     *decoded.Function
	slab   []uint64
	parent *frame
	site   *decoded.CallSite
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

// maxDepth bounds the depth of calls.
const maxDepth = 1 << 14

// newFrame returns a frame for fn with its constants filled in.
func (k *runner) newFrame(fn *decoded.Function) *frame {
	f := &frame{fn: fn}
	f.slab, f.Registers = lanes.NewRegisters(int(fn.FrameSize))
	*f.Pred(decoded.TrueReg) = lanes.All
	for _, c := range fn.Consts {
		value := c.Preset.Value
		switch {
		case c.Preset.Symbol.Variable != nil:
			value += k.run.addressOfVar(c.Preset.Symbol.Variable)
		case c.Preset.Symbol.Function != nil:
			value += k.run.prog.FunctionAddress(c.Preset.Symbol.Function)
		}
		if c.Preset.Width == lanes.WidthPred {
			*f.Pred(c.Off) = uint32(value)
			continue
		}
		f.Fill(c.Off, c.Preset.Width, value, lanes.All)
	}
	return f
}

// fillSpecials fills in the special registers of f, which must be current: all of them, or only
// those that change from block to block.
func (w *warp) fillSpecials(f *frame, all bool) {
	for _, s := range f.fn.Specials {
		if all || specialValues[s.Value].block != nil {
			w.fillSpecial(s)
		}
	}
}

func (w *warp) fillSpecial(s decoded.SpecialRegister) {
	switch value := &specialValues[s.Value]; {
	case value.block != nil:
		w.Fill(s.Off, s.Width, value.block(w.block), lanes.All)
	case value.launch != nil:
		w.Fill(s.Off, s.Width, value.launch(w.block.run), lanes.All)
	default:
		var r [lanes.Count]uint64
		for i := range r {
			r[i] = value.lane(w, uint32(i))
		}
		w.Store(s.Off, s.Width, &r, lanes.All)
	}
}

// fillLocals fills in the addresses of local variables.
func (w *warp) fillLocals(f *frame) {
	for _, l := range f.fn.Locals {
		w.Fill(l.Off, l.Width, f.local+l.At, lanes.All)
	}
}

// call enters a function for the lanes of m. Lanes that call another function through a pointer
// call it afterwards.
func (w *warp) call(in *decoded.Inst, m uint32) bool {
	site := in.More.Call
	if site.Builtin != decoded.BuiltinNone {
		builtinFuncs[site.Builtin](w, site, m)
		w.pc++
		return w.fault == nil
	}
	target := site.Target
	if target == nil {
		first := lanes.First(m)
		pointer := w.Lane(site.Pointer, lanes.Width64, first)
		if target = w.prog.FunctionAt(pointer, site); target == nil {
			w.failAt(first, cudaabi.ErrorInvalidPC, "call of address %#x", pointer)
			return false
		}
		var others uint32
		for s := m; s != 0; s &= s - 1 {
			if i := lanes.First(s); w.Lane(site.Pointer, lanes.Width64, i) != pointer {
				others |= 1 << i
			}
		}
		if others != 0 {
			w.push(split{pc: w.pc, mask: others, frame: w.frame})
			m &^= others
			w.active = m
		}
	}
	return w.enterFunction(w.prog.Functions[target], site, m)
}

func (w *warp) enterFunction(fn *decoded.Function, site *decoded.CallSite, m uint32) bool {
	caller := w.frame
	local := caller.local + caller.fn.LocalSize
	if caller.depth >= maxDepth || local+fn.LocalSize > w.block.run.StackBytes {
		w.failAt(lanes.First(m), cudaabi.ErrorLaunchFailed, "stack overflow at depth %d",
			caller.depth)
		return false
	}
	var f *frame
	if w.needLocal(local + fn.LocalSize) {
		f = w.block.runner.callFrame(fn)
	}
	if f == nil {
		w.failAt(lanes.First(m), cudaabi.ErrorOutOfMemory, "too little host memory at depth %d",
			caller.depth)
		return false
	}
	f.parent, f.site, f.back, f.depth, f.live, f.local = caller, site, w.pc+1, caller.depth+1, m,
		local
	for i, arg := range site.Args {
		w.copyLocal(local+fn.ParamOffsets[i], caller.local+arg.At, arg.Size, m)
	}
	w.enter(f)
	w.fillSpecials(f, true)
	w.fillLocals(f)
	w.pc = fn.Entry
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
	for i, result := range f.site.Results {
		w.copyLocal(f.parent.local+result.At, f.local+f.fn.ResultOffsets[i], result.Size, m)
	}
	w.push(split{pc: f.back, mask: m, frame: f.parent})
	if f.live &^= m; f.live&^w.dead == 0 {
		w.block.runner.freeFrame(f)
	}
	return false
}

// copyLocal copies between places in the lanes' local memory.
func (w *warp) copyLocal(to, from, size uint64, m uint32) {
	for s := m; s != 0; s &= s - 1 {
		base := w.LocalBase + uintptr(w.LocalStride)*uintptr(bits.TrailingZeros32(s))
		loadstore.CopyBytes(base+uintptr(to), base+uintptr(from), size)
	}
}

// needLocal makes sure that each lane has size bytes of local memory, and returns false if the
// host's memory is short.
func (w *warp) needLocal(size uint64) bool {
	if size <= w.LocalStride {
		return true
	}
	stride := localStride(size)
	if !w.block.runner.takeLocal(w, stride) {
		return false
	}
	slab, base := loadstore.NewBytes(stride * lanes.Count)
	for i := range uintptr(lanes.Count) {
		if w.LocalStride > 0 {
			loadstore.CopyBytes(base+i*uintptr(stride), w.LocalBase+i*uintptr(w.LocalStride),
				w.LocalStride)
		}
	}
	w.local, w.LocalBase, w.LocalStride = slab, base, stride
	return true
}

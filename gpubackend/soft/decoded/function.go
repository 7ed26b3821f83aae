// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// Function is a decoded function.
type Function struct {
	src   *ptx.Function
	Index int
	Entry int32
	// FrameSize is the size of the registers.
	FrameSize uint32
	// LocalSize is the local memory of a call: variables, parameters, results.
	LocalSize     uint64
	varOffsets    []uint64
	ParamOffsets  []uint64
	ResultOffsets []uint64
	// Consts, specials and locals are the registers filled before execution.
	Consts   []presetRegister
	Specials []SpecialRegister
	Locals   []localRegister
	// calls are the functions called or named; indirect says that others may be called, too.
	calls    map[*ptx.Function]bool
	indirect bool
	// reserves says that the function reads where reserved shared memory is.
	reserves bool
}

// presetRegister is a register that a Preset fills.
type presetRegister struct {
	Off uint32
	Preset
}

// LocalRegister is a register to be filled with an address in the call's local
// memory.
type localRegister struct {
	Off   uint32
	Width lanes.Width
	At    uint64
}

// layout places variables, parameters and results in local memory.
func (fn *Function) layout() {
	place := func(size, align uint64) uint64 {
		at := (fn.LocalSize + align - 1) &^ (align - 1)
		fn.LocalSize = at + size
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
			fn.ParamOffsets = append(fn.ParamOffsets, place(uint64(p.Size), uint64(p.Align)))
		}
		for _, p := range fn.src.Results {
			fn.ResultOffsets = append(fn.ResultOffsets, place(uint64(p.Size), uint64(p.Align)))
		}
	}
	fn.LocalSize = (fn.LocalSize + 15) &^ 15
}

// CallSite is a decoded call.
type CallSite struct {
	// Target is the function called; nil for an indirect call through the
	// register pointer, and for builtin functions.
	Target  *ptx.Function
	Pointer uint32
	Builtin Builtin
	// Args and results are the variables of the caller.
	Args, Results []Value
}

// Value is a variable of the caller that is passed or receives a result.
type Value struct{ At, Size uint64 }

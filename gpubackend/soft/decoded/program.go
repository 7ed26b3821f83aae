// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// A Program is a loaded module: its kernels decoded for execution.
type Program struct {
	module  *ptx.Module
	kernels map[string]*Kernel
	globals []Global
	// references are in the order of the module.
	references []Reference

	// Code are the instructions of all functions.
	Code []Inst
	// Functions are the functions that have a body, Decoded the same by their index.
	Functions map[*ptx.Function]*Function
	Decoded   []*Function
	// Addresses are those of variables, once the program is linked.
	Addresses map[*ptx.Variable]uint64

	number uint64
	linked bool

	mem  *budget.Account
	over error // set when mem had no more
}

// A Kernel is an entry of a Program.
type Kernel struct {
	Name    string
	Program *Program
	// Params are the parameters with their offsets and sizes, ParamSize the
	// size of all of them.
	Params    []ptx.Parameter
	ParamSize int
	// StaticShared is the static shared memory of a block in bytes.
	StaticShared uint64
	// Reserved is the shared memory of a block beside its own, which the system and cooperative
	// groups use.
	Reserved uint64
	// LocalSize is the local memory of a thread in bytes.
	LocalSize uint64
	// ConstSize is the size of the module's constant variables.
	ConstSize uint64
	// Registers is an estimate of what ptxas would allocate for a thread.
	Registers int
	// MaxThreads and ReqThreads are .maxntid and .reqntid, zero when absent.
	MaxThreads, ReqThreads [3]int
	MinBlocks              int
	MaxRegisters           int // .maxnreg

	Function   *Function
	SharedVars map[*ptx.Variable]uint64
	// DynamicAt is where dynamic shared memory begins.
	DynamicAt uint64
}

// A Global is a variable of the module that lives in device memory.
type Global struct {
	Name     string
	Size     uint64
	Align    int
	Constant bool
	Managed  bool
	// External is set for a variable that another module defines.
	External bool

	Variable *ptx.Variable
}

// Kernel returns the kernel called name, or nil.
func (p *Program) Kernel(name string) *Kernel { return p.kernels[name] }

// Kernels returns all kernels, sorted by name.
func (p *Program) Kernels() []*Kernel {
	list := make([]*Kernel, 0, len(p.kernels))
	for _, k := range p.kernels {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b *Kernel) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Globals returns the global and constant variables in the order of the module.
func (p *Program) Globals() []Global { return p.globals }

// References returns the texture and surface references in the order of Launch.Bindings.
func (p *Program) References() []Reference { return p.references }

// Link tells the program where its globals are. address is called for each of
// Globals; an external one may be unknown only if no kernel refers to it.
// Link is to be called once, before the first launch.
func (p *Program) Link(address func(name string) (addr uint64, ok bool)) error {
	if p.linked {
		return errors.New("link program: linked already")
	}
	for i := range p.globals {
		g := &p.globals[i]
		addr, ok := address(g.Name)
		if !ok && (!g.External || p.refers(g)) {
			return fmt.Errorf("link program: no address for %s", g.Name)
		}
		p.Addresses[g.Variable] = addr
	}
	p.linked = true
	return nil
}

// Linked says whether it has been linked.
func (p *Program) Linked() bool { return p.linked }

// Fill writes a global's initial content, Size bytes, with the addresses of
// other symbols filled in. It may be called after Link.
func (p *Program) Fill(g *Global, to []byte) error {
	if err := p.fill(g, to); err != nil {
		return fmt.Errorf("content of %s: %w", g.Name, err)
	}
	return nil
}

// fill is Fill. Its errors don't name the global.
func (p *Program) fill(g *Global, data []byte) error {
	if !p.linked {
		return errors.New("program isn't linked")
	}
	clear(data[copy(data, g.Variable.Init):])
	for _, r := range g.Variable.Relocs {
		var addr uint64
		switch f, v := p.module.Function(r.Symbol), p.module.Var(r.Symbol); {
		case f != nil:
			if addr = p.FunctionAddress(f); addr == 0 {
				return fmt.Errorf("address of undefined function %s", r.Symbol)
			}
		case v != nil && v.Space != ptx.Shared:
			addr = p.Addresses[v]
		default:
			return fmt.Errorf("address of %s isn't constant", r.Symbol)
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], (addr+uint64(r.Addend))>>r.Shift)
		copy(data[r.Offset:], b[:r.Size])
	}
	return nil
}

// refers tells whether code or another variable uses g.
func (p *Program) refers(g *Global) bool {
	for _, fn := range p.Decoded {
		for _, c := range fn.Consts {
			if c.Preset.Symbol.Variable == g.Variable {
				return true
			}
		}
	}
	for _, v := range p.module.Vars {
		for _, r := range v.Relocs {
			if r.Symbol == g.Name {
				return true
			}
		}
	}
	return false
}

// Function addresses are FunctionWindow, the program's number, and the index of the function. They
// are the same in another process, where a program goes on that has stored some. The number is of
// the text, so that a function of another text isn't called by mistake.
const (
	functionShift = 4
	programShift  = 28
)

// FunctionAddress is the address by which programs call src; 0 if it has no
// body.
func (p *Program) FunctionAddress(src *ptx.Function) uint64 {
	fn := p.Functions[src]
	if fn == nil {
		return 0
	}
	return FunctionWindow | p.number<<programShift | uint64(fn.Index+1)<<functionShift
}

// FunctionAt finds the function at an address, if its parameters are those of
// the call.
func (p *Program) FunctionAt(addr uint64, site *CallSite) *ptx.Function {
	index := (addr - FunctionWindow - p.number<<programShift) >> functionShift
	if index == 0 || index > uint64(len(p.Decoded)) ||
		p.FunctionAddress(p.Decoded[index-1].src) != addr {
		return nil
	}
	src := p.Decoded[index-1].src
	if src.Entry || len(src.Params) != len(site.Args) || len(src.Results) != len(site.Results) {
		return nil
	}
	for i, arg := range site.Args {
		if arg.Size != uint64(src.Params[i].Size) {
			return nil
		}
	}
	for i, result := range site.Results {
		if result.Size != uint64(src.Results[i].Size) {
			return nil
		}
	}
	return src
}

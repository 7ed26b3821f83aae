// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"fmt"

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

// Load decodes a module, and takes what the program consists of from mem. The error is a *ptx.Error
// for what isn't supported, or wraps budget.ErrExceeded; what was taken is the caller's to give
// back.
func Load(m *ptx.Module, mem *budget.Account) (*Program, error) { return load(m, mem) }

// Kernel returns the kernel called name, or nil.
func (p *Program) Kernel(name string) *Kernel { return p.kernels[name] }

// Kernels returns all kernels, sorted by name.
func (p *Program) Kernels() []*Kernel { return p.sortedKernels() }

// Globals returns the global and constant variables in the order of the module.
func (p *Program) Globals() []Global { return p.globals }

// References returns the texture and surface references in the order of Launch.Bindings.
func (p *Program) References() []Reference { return p.references }

// Link tells the program where its globals are. address is called for each of
// Globals; an external one may be unknown only if no kernel refers to it.
// Link is to be called once, before the first launch.
func (p *Program) Link(address func(name string) (addr uint64, ok bool)) error {
	return p.link(address)
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

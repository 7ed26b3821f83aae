// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// programs numbers the programs of this process, so that a function's address
// is valid in its own program only.
var programs atomic.Uint64

// Function addresses are FunctionWindow, the program's number, and the index
// of the function.
const (
	functionShift = 4
	programShift  = 28
)

// load is Load.
func load(m *ptx.Module, mem *budget.Account) (*Program, error) {
	p := &Program{
		mem:       mem,
		module:    m,
		number:    programs.Add(1),
		kernels:   make(map[string]*Kernel),
		Functions: make(map[*ptx.Function]*Function),
		Addresses: make(map[*ptx.Variable]uint64),
	}
	for _, src := range m.Functions {
		if !src.Defined {
			continue
		}
		p.take(functionBytes + uint64(len(src.Vars)+len(src.Params)+len(src.Results))*offsetBytes)
		fn := &Function{src: src, Index: len(p.Decoded), calls: make(map[*ptx.Function]bool)}
		fn.layout()
		p.Functions[src] = fn
		p.Decoded = append(p.Decoded, fn)
	}
	for _, fn := range p.Decoded {
		if err := decodeFunction(p, fn); err != nil {
			return nil, err
		}
	}
	for _, v := range m.Vars {
		p.take(globalBytes)
		if v.Opaque != ptx.NotOpaque {
			p.addReference(v)
		} else if v.Space == ptx.Global || v.Space == ptx.Const {
			p.globals = append(p.globals, Global{Name: v.Name, Size: v.Size, Align: v.Align,
				Constant: v.Space == ptx.Const, Managed: v.Managed,
				External: v.Linkage == ptx.Extern, Variable: v})
		}
	}
	for _, fn := range p.Decoded {
		if p.over != nil {
			break
		}
		if fn.src.Entry {
			p.take(kernelBytes)
			p.kernels[fn.src.Name] = p.newKernel(fn)
		}
	}
	return p, p.over
}

// newKernel describes an entry.
func (p *Program) newKernel(fn *Function) *Kernel {
	k := &Kernel{Name: fn.src.Name, Program: p, Params: fn.src.Params, ParamSize: fn.src.ParamSize,
		MaxThreads: fn.src.MaxThreads, ReqThreads: fn.src.ReqThreads, MinBlocks: fn.src.MinBlocks,
		MaxRegisters: fn.src.MaxRegisters, Function: fn}
	if k.MaxThreads[0] == 0 {
		k.MaxThreads = k.ReqThreads
	}
	reached := p.reach(fn)
	k.layoutShared(p.module, reached)
	for _, v := range p.module.Vars {
		if v.Space == ptx.Const {
			k.ConstSize = alignTo(k.ConstSize, uint64(v.Align)) + v.Size
		}
	}
	for _, f := range reached {
		k.LocalSize += f.LocalSize
		if f.reserves {
			k.Reserved = ReservedShared
		}
		k.Registers = max(k.Registers, f.estimate())
	}
	return k
}

// reach collects the functions that fn may call, itself first.
func (p *Program) reach(fn *Function) []*Function {
	seen := map[*Function]bool{fn: true}
	list := []*Function{fn}
	add := func(src *ptx.Function) {
		if f := p.Functions[src]; f != nil && !seen[f] && !src.Entry {
			seen[f] = true
			list = append(list, f)
		}
	}
	for i := 0; i < len(list); i++ {
		for _, src := range p.module.Functions {
			if list[i].calls[src] || list[i].indirect && p.named(src) {
				add(src)
			}
		}
	}
	return list
}

// named tells whether the address of src is taken anywhere.
func (p *Program) named(src *ptx.Function) bool {
	for _, v := range p.module.Vars {
		for _, r := range v.Relocs {
			if r.Symbol == src.Name {
				return true
			}
		}
	}
	for _, fn := range p.Decoded {
		if fn.calls[src] {
			return true
		}
	}
	return false
}

// layoutShared places the shared variables that the kernel's functions name.
func (k *Kernel) layoutShared(m *ptx.Module, reached []*Function) {
	k.SharedVars = make(map[*ptx.Variable]uint64)
	used := make(map[*ptx.Variable]bool)
	for _, f := range reached {
		for _, c := range f.Consts {
			if v := c.Preset.Symbol.Variable; v != nil && v.Space == ptx.Shared {
				used[v] = true
			}
		}
	}
	vars := slices.Clone(m.Vars)
	for _, f := range reached {
		vars = append(vars, f.src.Vars...)
	}
	var end, dynamicAlign uint64 = 0, 16
	for _, v := range vars {
		if !used[v] {
			continue
		}
		if v.Linkage == ptx.Extern && v.Size == 0 {
			dynamicAlign = max(dynamicAlign, uint64(v.Align))
			continue
		}
		end = alignTo(end, uint64(v.Align))
		k.Program.take(sharedBytes)
		k.SharedVars[v] = end
		end += v.Size
	}
	k.StaticShared = end
	k.DynamicAt = alignTo(end, dynamicAlign)
	for v := range used {
		if _, placed := k.SharedVars[v]; !placed {
			k.Program.take(sharedBytes)
			k.SharedVars[v] = k.DynamicAt
		}
	}
}

func alignTo(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// estimate guesses the registers of 32 bits that a compiler would need.
func (fn *Function) estimate() int {
	n := 0
	for _, r := range fn.src.Regs {
		n += max(r.Type.Size(), 2)
	}
	return min(16+n/24, 255)
}

func (p *Program) sortedKernels() []*Kernel {
	list := make([]*Kernel, 0, len(p.kernels))
	for _, k := range p.kernels {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b *Kernel) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// link is Link.
func (p *Program) link(address func(name string) (uint64, bool)) error {
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

// fill is Fill.
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

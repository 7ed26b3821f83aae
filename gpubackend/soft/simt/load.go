// SPDX-License-Identifier: Apache-2.0

package simt

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
		functions: make(map[*ptx.Function]*function),
		addresses: make(map[*ptx.Variable]uint64),
	}
	for _, src := range m.Functions {
		if !src.Defined {
			continue
		}
		p.take(functionBytes + uint64(len(src.Vars)+len(src.Params)+len(src.Results))*offsetBytes)
		fn := &function{src: src, index: len(p.decoded), calls: make(map[*ptx.Function]bool)}
		fn.layout()
		p.functions[src] = fn
		p.decoded = append(p.decoded, fn)
	}
	for _, fn := range p.decoded {
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
				External: v.Linkage == ptx.Extern, variable: v})
		}
	}
	for _, fn := range p.decoded {
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
func (p *Program) newKernel(fn *function) *Kernel {
	k := &Kernel{Name: fn.src.Name, Program: p, Params: fn.src.Params, ParamSize: fn.src.ParamSize,
		MaxThreads: fn.src.MaxThreads, ReqThreads: fn.src.ReqThreads, MinBlocks: fn.src.MinBlocks,
		MaxRegisters: fn.src.MaxRegisters, fn: fn}
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
		k.LocalSize += f.localSize
		if f.reserves {
			k.Reserved = reservedShared
		}
		k.Registers = max(k.Registers, f.estimate())
	}
	return k
}

// reach collects the functions that fn may call, itself first.
func (p *Program) reach(fn *function) []*function {
	seen := map[*function]bool{fn: true}
	list := []*function{fn}
	add := func(src *ptx.Function) {
		if f := p.functions[src]; f != nil && !seen[f] && !src.Entry {
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
	for _, fn := range p.decoded {
		if fn.calls[src] {
			return true
		}
	}
	return false
}

// layoutShared places the shared variables that the kernel's functions name.
func (k *Kernel) layoutShared(m *ptx.Module, reached []*function) {
	k.sharedVars = make(map[*ptx.Variable]uint64)
	used := make(map[*ptx.Variable]bool)
	for _, f := range reached {
		for _, c := range f.consts {
			if v := c.preset.symbol.variable; v != nil && v.Space == ptx.Shared {
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
		k.sharedVars[v] = end
		end += v.Size
	}
	k.StaticShared = end
	k.dynamicAt = alignTo(end, dynamicAlign)
	for v := range used {
		if _, placed := k.sharedVars[v]; !placed {
			k.Program.take(sharedBytes)
			k.sharedVars[v] = k.dynamicAt
		}
	}
}

func alignTo(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// estimate guesses the registers of 32 bits that a compiler would need.
func (fn *function) estimate() int {
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
		p.addresses[g.variable] = addr
	}
	p.linked = true
	return nil
}

// refers tells whether code or another variable uses g.
func (p *Program) refers(g *Global) bool {
	for _, fn := range p.decoded {
		for _, c := range fn.consts {
			if c.preset.symbol.variable == g.variable {
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
	clear(data[copy(data, g.variable.Init):])
	for _, r := range g.variable.Relocs {
		var addr uint64
		switch f, v := p.module.Function(r.Symbol), p.module.Var(r.Symbol); {
		case f != nil:
			if addr = p.functionAddress(f); addr == 0 {
				return fmt.Errorf("address of undefined function %s", r.Symbol)
			}
		case v != nil && v.Space != ptx.Shared:
			addr = p.addresses[v]
		default:
			return fmt.Errorf("address of %s isn't constant", r.Symbol)
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], (addr+uint64(r.Addend))>>r.Shift)
		copy(data[r.Offset:], b[:r.Size])
	}
	return nil
}

// functionAddress is the address by which programs call src; 0 if it has no
// body.
func (p *Program) functionAddress(src *ptx.Function) uint64 {
	fn := p.functions[src]
	if fn == nil {
		return 0
	}
	return FunctionWindow | p.number<<programShift | uint64(fn.index+1)<<functionShift
}

// functionAt finds the function at an address, if its parameters are those of
// the call.
func (p *Program) functionAt(addr uint64, site *callSite) *ptx.Function {
	index := (addr - FunctionWindow - p.number<<programShift) >> functionShift
	if index == 0 || index > uint64(len(p.decoded)) ||
		p.functionAddress(p.decoded[index-1].src) != addr {
		return nil
	}
	src := p.decoded[index-1].src
	if src.Entry || len(src.Params) != len(site.args) || len(src.Results) != len(site.results) {
		return nil
	}
	for i, arg := range site.args {
		if arg.size != uint64(src.Params[i].Size) {
			return nil
		}
	}
	for i, result := range site.results {
		if result.size != uint64(src.Results[i].Size) {
			return nil
		}
	}
	return src
}

// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// Load decodes a module, and takes what the program consists of from mem. The error is a *ptx.Error
// for what isn't supported, or wraps budget.ErrExceeded; what was taken is the caller's to give
// back.
func Load(m *ptx.Module, mem *budget.Account) (*Program, error) {
	p := &Program{
		mem:       mem,
		module:    m,
		number:    m.Sum & (1<<(WindowShift-programShift) - 1),
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

// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// placed has the managed variables of a module or library, in memory of the guest's.
type placed struct {
	at, bytes uint64
	variables []managed.Variable
	filled    bool // with initial content
}

// placedModule is a module with such variables; those of a library share them.
type placedModule struct {
	*placed
	context *contexts.Context
}

// placements is all of them.
type placements struct {
	modules   map[gpubackend.Module]placedModule
	libraries map[gpubackend.Library]*placed
}

func newPlaced(c *managed.Code, at uint64) *placed {
	return &placed{at: at, bytes: c.Bytes, variables: c.Variables}
}

// find returns a variable's address and size.
func (p *placed) find(name string) (addr, bytes uint64, found bool) {
	for i := range p.variables {
		if v := &p.variables[i]; v.Name == name {
			return p.at + v.Offset, v.Size, true
		}
	}
	return 0, 0, false
}

// fill writes the variables' initial content to the guest's memory, once: zeros, or what plain
// variables hold that the driver has loaded in their place. The guest's memory must still be
// registered.
func (x *Code) fill(
	p *placed, global func(name string) (addr, bytes uint64, r gpubackend.Result),
) gpubackend.Result {
	if p.filled {
		return gpubackend.Success
	}
	if !x.ranges.Host.Cover(p.at, p.bytes, true) {
		return gpubackend.InvalidValue
	}
	for i := range p.variables {
		v := &p.variables[i]
		to := cmem.At(p.at+v.Offset, int(v.Size))
		if v.Content == "" {
			clear(to)
			continue
		}
		addr, bytes, r := global(v.Content)
		if r == gpubackend.Success && bytes != v.Size {
			r = gpubackend.InvalidImage
		}
		if r == gpubackend.Success {
			r = x.copyOut(to, addr)
		}
		if r != gpubackend.Success {
			x.options.Log.WithField("variable", v.Name).WithField("result", r).Warn(
				"a __managed__ variable can't be given its initial content")
			return r
		}
	}
	p.filled = true
	return gpubackend.Success
}

// fillLibrary is fill for a library. It needs a current context.
func (x *Code) fillLibrary(l gpubackend.Library, p *placed) gpubackend.Result {
	if !x.contexts.Usable() {
		return gpubackend.InvalidContext
	}
	if r := x.host.RegisterEarly(); r != gpubackend.Success {
		return r
	}
	return x.fill(p, func(name string) (uint64, uint64, gpubackend.Result) {
		return x.calls.LibraryGetGlobal(l, name)
	})
}

// fillAnywhere is fillLibrary in the current context or, without one, in any that there is.
func (x *Code) fillAnywhere(l gpubackend.Library, p *placed) gpubackend.Result {
	if x.contexts.Usable() || p.filled {
		return x.fillLibrary(l, p)
	}
	c := x.contexts.Any()
	if c == nil {
		return gpubackend.InvalidContext
	}
	return x.contexts.In(c, func() gpubackend.Result { return x.fillLibrary(l, p) })
}

// Serve does what libraries needed a context for: from now on the program may touch their
// variables. A failure is logged; when a library is needed, it is tried again and reported.
func (x *Code) Serve() {
	if x.host.Pending() && x.contexts.Usable() && x.host.RegisterEarly() == gpubackend.Success {
		x.fillLibraries()
	}
}

// ServeIn is Serve in a context that has just begun.
func (x *Code) ServeIn(c *contexts.Context) {
	x.fillAreas(c)
	if !x.host.Pending() {
		return
	}
	x.contexts.In(c, func() gpubackend.Result {
		x.Serve() // it may have been current before it began
		return gpubackend.Success
	})
}

// fillLibraries fills those that were loaded while there was no context.
func (x *Code) fillLibraries() gpubackend.Result {
	for l, p := range x.placed.libraries {
		if r := x.fillLibrary(l, p); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

func (x *Code) addModule(m gpubackend.Module, p *placed) {
	x.placed.modules[m] = placedModule{p, x.contexts.Current()}
}

// forgetPlaced forgets the modules that end with their library, or with their context.
func (x *Code) forgetPlaced(p *placed, c *contexts.Context) {
	for m, module := range x.placed.modules {
		if module.placed == p || module.context == c {
			delete(x.placed.modules, m)
		}
	}
}

// plainGlobal returns a variable of a module or library unless it is managed: the guest couldn't
// touch one that was overlooked.
func (x *Code) plainGlobal(
	of uint64, a *variablesArea, name string, addr, bytes uint64, r gpubackend.Result,
) (uint64, uint64, gpubackend.Result) {
	if r != gpubackend.Success {
		return 0, 0, r
	}
	managed, r := x.calls.PointerAttribute(cudaabi.PointerAttributeIsManaged, addr)
	if r == gpubackend.Success && managed != 0 {
		return 0, 0, x.overlooked(name)
	}
	if at, ok := x.tell(a, name, addr, bytes); ok {
		return at, bytes, gpubackend.Success
	}
	x.ranges.OfGPUs.Put(copyable.Span{Base: addr, Bytes: bytes, Writable: true})
	x.stays(of, name)
	return addr, bytes, gpubackend.Success
}

func (x *Code) overlooked(name string) gpubackend.Result {
	x.options.Log.WithField("variable", name).Error(
		"a program's __managed__ variable was overlooked when its code was loaded")
	return gpubackend.NotSupported
}

// ModuleGetGlobal returns a variable of the driver's, or a managed one in the guest's memory.
func (x *Code) ModuleGetGlobal(
	m gpubackend.Module, name string,
) (uint64, uint64, gpubackend.Result) {
	if p := x.placed.modules[m].placed; p != nil {
		if addr, bytes, found := p.find(name); found {
			return addr, bytes, gpubackend.Success
		}
	}
	a := x.areas.of(m)
	if addr, bytes, found := a.find(name); found {
		return addr, bytes, gpubackend.Success
	}
	addr, bytes, r := x.calls.ModuleGetGlobal(m, name)
	return x.plainGlobal(uint64(m), a, name, addr, bytes, r)
}

// LibraryGetGlobal is ModuleGetGlobal for a library.
func (x *Code) LibraryGetGlobal(
	l gpubackend.Library, name string,
) (uint64, uint64, gpubackend.Result) {
	if p := x.placed.libraries[l]; p != nil {
		if r := x.fillLibrary(l, p); r != gpubackend.Success {
			return 0, 0, r
		}
		if addr, bytes, found := p.find(name); found {
			return addr, bytes, gpubackend.Success
		}
	}
	a := x.areas.libraries[l]
	if x.contexts.Usable() {
		if addr, bytes, found := a.find(name); found {
			return addr, bytes, gpubackend.Success
		}
	}
	addr, bytes, r := x.calls.LibraryGetGlobal(l, name)
	return x.plainGlobal(uint64(l), a, name, addr, bytes, r)
}

// LibraryGetManaged returns a managed variable, which all contexts share. Its address is known
// before there is one: the runtime of CUDA 13 asks as soon as the library is loaded, and only then.
// Initial content comes with the first context.
func (x *Code) LibraryGetManaged(
	l gpubackend.Library, name string,
) (uint64, uint64, gpubackend.Result) {
	p := x.placed.libraries[l]
	if p == nil {
		_, _, r := x.calls.LibraryGetManaged(l, name)
		if r == gpubackend.Success {
			r = x.overlooked(name)
		}
		return 0, 0, r
	}
	if r := x.fillAnywhere(l, p); r != gpubackend.Success && r != gpubackend.InvalidContext {
		return 0, 0, r
	}
	if addr, bytes, found := p.find(name); found {
		return addr, bytes, gpubackend.Success
	}
	return 0, 0, gpubackend.NotFound
}

// LibraryGetModule returns a library's module in the current context.
func (x *Code) LibraryGetModule(l gpubackend.Library) (gpubackend.Module, gpubackend.Result) {
	p := x.placed.libraries[l]
	if p != nil {
		if r := x.fillLibrary(l, p); r != gpubackend.Success {
			return 0, r
		}
	}
	m, r := x.calls.LibraryGetModule(l)
	if r == gpubackend.Success && x.options.Movable {
		x.areas.lent[m] = l
	}
	if r == gpubackend.Success && p != nil {
		x.addModule(m, p)
	}
	return m, r
}

// KernelGetFunction returns a kernel's function in the current context.
func (x *Code) KernelGetFunction(k gpubackend.Kernel) (gpubackend.Function, gpubackend.Result) {
	if r := x.fillLibraries(); r != gpubackend.Success {
		return 0, r
	}
	return x.calls.KernelGetFunction(k)
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// placed is the managed variables of a module or library, in a block of the guest's memory.
type placed struct {
	at, bytes uint64
	variables []managed.Variable
	filled    bool // with initial content
}

// placedModule is a module with such variables; those of a library share them.
type placedModule struct {
	*placed
	context *context
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

// fill writes initial content where the guest has the variables, once: what the driver has made of that of plain
// variables, and zeros. The guest's memory must be registered still.
func (d *Device) fill(p *placed, global func(name string) (addr, bytes uint64, r gpubackend.Result)) gpubackend.Result {
	if p.filled {
		return gpubackend.Success
	}
	if !d.ranges.host.cover(p.at, p.bytes, true) {
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
			r = d.CopyOut(to, addr)
		}
		if r != gpubackend.Success {
			d.log.WithField("variable", v.Name).WithField("result", r).Warn("no initial content of a __managed__ variable")
			return r
		}
	}
	p.filled = true
	return gpubackend.Success
}

// fillLibrary is fill for a library. It needs a current context.
func (d *Device) fillLibrary(l gpubackend.Library, p *placed) gpubackend.Result {
	if !d.usable() {
		return gpubackend.InvalidContext
	}
	if r := d.registerLent(); r != gpubackend.Success {
		return r
	}
	return d.fill(p, func(name string) (uint64, uint64, gpubackend.Result) { return d.calls.LibraryGetGlobal(l, name) })
}

// fillAnywhere is fillLibrary in the current context or, without one, in any that there is.
func (d *Device) fillAnywhere(l gpubackend.Library, p *placed) gpubackend.Result {
	if d.usable() || p.filled {
		return d.fillLibrary(l, p)
	}
	c := d.anyContext()
	if c == nil {
		return gpubackend.InvalidContext
	}
	before := d.current
	r := d.SetCurrent(c.handle)
	if r == gpubackend.Success {
		r = d.fillLibrary(l, p)
	}
	d.SetCurrent(before)
	return r
}

// serveLibraries does for libraries what waited for a context: the program may touch their variables from now on.
// What fails is logged, tried again, and reported, when a library is needed.
func (d *Device) serveLibraries() {
	if d.lends && d.usable() && d.registerLent() == gpubackend.Success {
		d.fillLibraries()
	}
}

// serveLibrariesIn is serveLibraries in a context that has just begun.
func (d *Device) serveLibrariesIn(c *context) {
	if !d.lends {
		return
	}
	before := d.current
	if d.SetCurrent(c.handle) == gpubackend.Success {
		d.serveLibraries() // it may have been current before it began
	}
	d.SetCurrent(before)
}

// fillLibraries fills those that were loaded while there was no context.
func (d *Device) fillLibraries() gpubackend.Result {
	for l, p := range d.placed.libraries {
		if r := d.fillLibrary(l, p); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

func (d *Device) addModule(m gpubackend.Module, p *placed) {
	if d.placed.modules == nil {
		d.placed.modules = map[gpubackend.Module]placedModule{}
	}
	d.placed.modules[m] = placedModule{p, d.state}
}

// forgetPlaced forgets the modules that end with their library, or with their context.
func (d *Device) forgetPlaced(p *placed, c *context) {
	for m, x := range d.placed.modules {
		if x.placed == p || x.context == c {
			delete(d.placed.modules, m)
		}
	}
}

// pointerIsManaged is CU_POINTER_ATTRIBUTE_IS_MANAGED.
const pointerIsManaged = 8

// plainGlobal returns a variable unless it is managed: the guest can't touch one that was overlooked.
func (d *Device) plainGlobal(addr, bytes uint64, r gpubackend.Result, name string) (uint64, uint64, gpubackend.Result) {
	if r != gpubackend.Success {
		return 0, 0, r
	}
	if managed, r := d.PointerAttribute(pointerIsManaged, addr); r == gpubackend.Success && managed != 0 {
		return 0, 0, d.overlooked(name)
	}
	d.ranges.device.put(span{addr, bytes, true})
	return addr, bytes, gpubackend.Success
}

func (d *Device) overlooked(name string) gpubackend.Result {
	d.log.WithField("variable", name).Error("a program's __managed__ variable was overlooked")
	return gpubackend.NotSupported
}

// ModuleGetGlobal returns a variable of the driver's, or a managed one in the guest's memory.
func (d *Device) ModuleGetGlobal(m gpubackend.Module, name string) (uint64, uint64, gpubackend.Result) {
	if p := d.placed.modules[m].placed; p != nil {
		if addr, bytes, found := p.find(name); found {
			return addr, bytes, gpubackend.Success
		}
	}
	addr, bytes, r := d.calls.ModuleGetGlobal(m, name)
	return d.plainGlobal(addr, bytes, r, name)
}

// LibraryGetGlobal is ModuleGetGlobal for a library.
func (d *Device) LibraryGetGlobal(l gpubackend.Library, name string) (uint64, uint64, gpubackend.Result) {
	if p := d.placed.libraries[l]; p != nil {
		if r := d.fillLibrary(l, p); r != gpubackend.Success {
			return 0, 0, r
		}
		if addr, bytes, found := p.find(name); found {
			return addr, bytes, gpubackend.Success
		}
	}
	addr, bytes, r := d.calls.LibraryGetGlobal(l, name)
	return d.plainGlobal(addr, bytes, r, name)
}

// LibraryGetManaged returns a managed variable, which is that of all contexts. Its address is known before there is one:
// the runtime of CUDA 13 asks as soon as the library is loaded, and only then. Initial content comes with the first
// context.
func (d *Device) LibraryGetManaged(l gpubackend.Library, name string) (uint64, uint64, gpubackend.Result) {
	p := d.placed.libraries[l]
	if p == nil {
		_, _, r := d.calls.LibraryGetManaged(l, name)
		if r == gpubackend.Success {
			r = d.overlooked(name)
		}
		return 0, 0, r
	}
	if r := d.fillAnywhere(l, p); r != gpubackend.Success && r != gpubackend.InvalidContext {
		return 0, 0, r
	}
	if addr, bytes, found := p.find(name); found {
		return addr, bytes, gpubackend.Success
	}
	return 0, 0, gpubackend.NotFound
}

// LibraryGetModule returns a library's module in the current context.
func (d *Device) LibraryGetModule(l gpubackend.Library) (gpubackend.Module, gpubackend.Result) {
	p := d.placed.libraries[l]
	if p != nil {
		if r := d.fillLibrary(l, p); r != gpubackend.Success {
			return 0, r
		}
	}
	m, r := d.calls.LibraryGetModule(l)
	if r == gpubackend.Success && p != nil {
		d.addModule(m, p)
	}
	return m, r
}

// KernelGetFunction returns a kernel's function in the current context.
func (d *Device) KernelGetFunction(k gpubackend.Kernel) (gpubackend.Function, gpubackend.Result) {
	if r := d.fillLibraries(); r != gpubackend.Success {
		return 0, r
	}
	return d.calls.KernelGetFunction(k)
}

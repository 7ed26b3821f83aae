// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/kernelheap"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// global is a variable of a module, in device memory or managed.
type global struct {
	addr, size uint64
	managed    bool
}

// Module is a CUmodule: a program with globals of its own.
type Module struct {
	Context   *contexts.Context
	set       *codeSet
	handle    uint64 // 0 until somebody asks for it, for a library's
	library   *library
	Program   *decoded.Program
	arch      int
	base      uint64 // where the memory of its globals begins, 0 for none
	globals   map[string]global
	functions map[string]*Function

	memory *budget.Account // of the host's
}

// Owner implements contexts.Owned.
func (m *Module) Owner() *contexts.Context { return m.Context }

// KernelHeap is the heap of malloc for the module's kernels, nil if no module of the context wants
// one.
func (m *Module) KernelHeap() *kernelheap.Heap { return m.set.heap }

// maxGlobals bounds the globals of a module, to keep sums from wrapping.
const maxGlobals = 1 << 40

// place loads a program into a context: it gives its globals memory and links them. memory is the
// module's from then on.
func (x *Code) place(
	c *contexts.Context, parsed *ptx.Module, program *decoded.Program, memory *budget.Account,
	managed managedMemory, log *buildLog,
) (*Module, gpubackend.Result) {
	m := &Module{
		Context: c, set: x.set(c), Program: program, arch: parsed.Arch,
		functions: make(map[string]*Function), memory: memory,
	}
	result := x.giveMemory(m, managed.addr)
	if result != gpubackend.Success {
		memory.Close()
		return nil, result
	}
	if result = m.link(managed.filled, log); result == gpubackend.Success &&
		parsed.Function("malloc") != nil {
		result = x.addHeap(c)
	}
	if result != gpubackend.Success {
		x.unload(m)
		return nil, result
	}
	return m, gpubackend.Success
}

// giveMemory decides where a module's globals are.
func (x *Code) giveMemory(m *Module, managed uint64) gpubackend.Result {
	if result := x.checkManaged(m.Program, managed); result != gpubackend.Success {
		return result
	}
	m.globals = make(map[string]global)
	size, result := m.layOut(false)
	if result != gpubackend.Success {
		return result
	}
	if _, result = m.layOut(true); result != gpubackend.Success {
		return result
	}
	if size > 0 {
		m.base, result = x.options.Memory.Alloc(ledger.Code, size)
		if result != gpubackend.Success {
			return result
		}
	}
	for name, g := range m.globals {
		if g.managed {
			g.addr += managed
		} else {
			g.addr += m.base
		}
		m.globals[name] = g
	}
	return gpubackend.Success
}

// layOut gives each global, or each managed variable, an offset and returns the size of them all.
func (m *Module) layOut(managed bool) (uint64, gpubackend.Result) {
	size := uint64(0)
	for _, g := range m.Program.Globals() {
		if g.External || g.Managed != managed {
			continue
		}
		align := uint64(max(g.Align, 1))
		size = (size + align - 1) / align * align
		if g.Size > maxGlobals || size > maxGlobals || align > devmem.Alignment {
			return 0, gpubackend.OutOfMemory
		}
		m.globals[g.Name] = global{size, g.Size, managed}
		size += max(g.Size, 1)
	}
	return size, gpubackend.Success
}

// link tells the program its addresses and fills the globals with their initial content, unless the
// managed ones have theirs already.
func (m *Module) link(filled bool, log *buildLog) gpubackend.Result {
	err := m.Program.Link(func(name string) (uint64, bool) {
		g, ok := m.globals[name]
		return g.addr, ok
	})
	if err != nil {
		log.refuse(err)
		return gpubackend.InvalidPTX
	}
	for i := range m.Program.Globals() {
		g := &m.Program.Globals()[i]
		if g.External || g.Managed && filled {
			continue
		}
		at := m.globals[g.Name]
		if err := m.Program.Fill(g, space.Bytes(at.addr, at.size)); err != nil {
			log.refuse(err)
			return gpubackend.InvalidPTX
		}
	}
	return gpubackend.Success
}

// addHeap makes the heap of the context's kernels.
func (x *Code) addHeap(c *contexts.Context) gpubackend.Result {
	size, code := c.HeapSize(), x.set(c)
	if code.heap != nil || size == 0 {
		return gpubackend.Success
	}
	addr, result := x.options.Memory.Alloc(ledger.Limits, size)
	if result == gpubackend.Success {
		code.heapAddress, code.heap = addr, kernelheap.New(addr, size, x.options.Host)
		c.FixHeap()
	}
	return result
}

// unload gives back what a module has. Kernels that run keep the program; the memory waits for
// them.
func (x *Code) unload(m *Module) {
	if m.base != 0 {
		x.options.Memory.DeferFree(m.base)
		m.base = 0
	}
	for _, f := range m.functions {
		x.options.Handles.Remove(f.handle)
	}
	x.options.Unloaded(m)
	x.options.Memory.After(m.memory.Close)
	x.options.Handles.Remove(m.handle)
	delete(m.set.modules, m.handle)
}

// ModuleLoadData implements gpubackend.Driver. NotReady says that the module has managed variables.
func (x *Code) ModuleLoadData(
	image, options, infoLog, errorLog []byte,
) (h gpubackend.Module, infoUsed, errorUsed uint64, result gpubackend.Result) {
	return x.loadModule(image, options, 0, infoLog, errorLog)
}

func (x *Code) loadModule(
	image, options []byte, managed uint64, infoLog, errorLog []byte,
) (h gpubackend.Module, infoUsed, errorUsed uint64, result gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, 0, 0, result
	}
	log := &buildLog{info: infoLog, errors: errorLog}
	defer func() { infoUsed, errorUsed = log.infoUsed, log.errorsUsed }()
	parsed, program, memory, result := x.build(image, options, log)
	if result != gpubackend.Success {
		return 0, 0, 0, result
	}
	memory.Give(parsed.DropBodies())
	m, result := x.place(c, parsed, program, memory, managedMemory{addr: managed}, log)
	if result != gpubackend.Success {
		return 0, 0, 0, result
	}
	m.handle = x.options.Handles.Add(m)
	m.set.modules[m.handle] = m
	return gpubackend.Module(m.handle), 0, 0, gpubackend.Success
}

// Module returns the module of a handle if its context is usable.
func (x *Code) Module(h gpubackend.Module) (*Module, gpubackend.Result) {
	if _, result := x.options.Contexts.Current(); result != gpubackend.Success {
		return nil, result
	}
	m, ok := handles.Find[*Module](x.options.Handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return m, m.Context.State()
}

// ModuleUnload implements gpubackend.Driver.
func (x *Code) ModuleUnload(h gpubackend.Module) gpubackend.Result {
	m, result := x.Module(h)
	if result != gpubackend.Success {
		return result
	}
	if m.library != nil {
		return gpubackend.NotPermitted // it goes with its library
	}
	x.unload(m)
	x.options.Memory.Reclaim()
	return gpubackend.Success
}

// ModuleGetFunction implements gpubackend.Driver.
func (x *Code) ModuleGetFunction(
	h gpubackend.Module, name string,
) (gpubackend.Function, gpubackend.Result) {
	m, result := x.Module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	f, result := x.functionNamed(m, name)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Function(f.handle), result
}

// ModuleGetGlobal implements gpubackend.Driver.
func (x *Code) ModuleGetGlobal(
	h gpubackend.Module, name string,
) (addr, bytes uint64, result gpubackend.Result) {
	m, result := x.Module(h)
	if result != gpubackend.Success {
		return 0, 0, result
	}
	return m.global(name)
}

// global returns a variable. The name of a kernel is InvalidValue, not NotFound.
func (m *Module) global(name string) (addr, bytes uint64, result gpubackend.Result) {
	g, ok := m.globals[name]
	switch {
	case ok:
		return g.addr, g.size, gpubackend.Success
	case name == "" || m.Program.Kernel(name) != nil:
		return 0, 0, gpubackend.InvalidValue
	}
	return 0, 0, gpubackend.NotFound
}

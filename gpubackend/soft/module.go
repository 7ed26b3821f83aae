// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// global is a variable of a module, in device memory or managed.
type global struct {
	addr, size uint64
	managed    bool
}

// module is a CUmodule: a program with globals of its own.
type module struct {
	ctx       *contexts.Context
	code      *contextCode
	handle    uint64 // 0 until somebody asks for it, for a library's
	library   *library
	program   *simt.Program
	arch      int
	block     uint64 // memory of the globals, 0 for none
	globals   map[string]global
	functions map[string]*function

	references references
	memory     *budget.Account // of the host's
}

func (m *module) Owner() *contexts.Context { return m.ctx }

// maxGlobals bounds the globals of a module, to keep sums from wrapping.
const maxGlobals = 1 << 40

// place loads a program into a context: it gives its globals memory and links them. memory is the module's from then on.
func (d *Device) place(
	c *contexts.Context, parsed *ptx.Module, program *simt.Program, memory *budget.Account, managed managedBlock, log *buildLog,
) (*module, gpubackend.Result) {
	m := &module{ctx: c, code: d.code(c), program: program, arch: parsed.Arch, functions: make(map[string]*function), memory: memory}
	result := d.giveMemory(m, managed.addr)
	if result != gpubackend.Success {
		memory.Close()
		return nil, result
	}
	if result = m.link(managed.filled, log); result == gpubackend.Success && parsed.Function("malloc") != nil {
		result = d.addHeap(c)
	}
	if result != gpubackend.Success {
		d.unload(m)
		return nil, result
	}
	return m, gpubackend.Success
}

// giveMemory decides where a module's globals are.
func (d *Device) giveMemory(m *module, managed uint64) gpubackend.Result {
	if result := d.checkManaged(m.program, managed); result != gpubackend.Success {
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
		if m.block, result = d.Memory.Alloc(size); result != gpubackend.Success {
			return result
		}
	}
	for name, g := range m.globals {
		if g.managed {
			g.addr += managed
		} else {
			g.addr += m.block
		}
		m.globals[name] = g
	}
	return gpubackend.Success
}

// layOut gives each global, or each managed variable, an offset and returns the size of them all.
func (m *module) layOut(managed bool) (uint64, gpubackend.Result) {
	size := uint64(0)
	for _, g := range m.program.Globals() {
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

// link tells the program its addresses and fills the globals with their initial content, unless the managed ones
// have theirs already.
func (m *module) link(filled bool, log *buildLog) gpubackend.Result {
	err := m.program.Link(func(name string) (uint64, bool) {
		g, ok := m.globals[name]
		return g.addr, ok
	})
	if err != nil {
		log.refuse(err)
		return gpubackend.InvalidPTX
	}
	for i := range m.program.Globals() {
		g := &m.program.Globals()[i]
		if g.External || g.Managed && filled {
			continue
		}
		at := m.globals[g.Name]
		if err := m.program.Fill(g, space.Bytes(at.addr, at.size)); err != nil {
			log.refuse(err)
			return gpubackend.InvalidPTX
		}
	}
	return gpubackend.Success
}

// contextCode is the code in a context.
type contextCode struct {
	modules     map[uint64]*module   // loaded as such, by handle
	libraries   map[*library]*module // those of libraries that the context uses
	heap        *simt.Heap           // of kernels' malloc; nil until a module wants it
	heapAddress uint64
}

// code returns the code in a context.
func (d *Device) code(c *contexts.Context) *contextCode {
	code := d.codes[c]
	if code == nil {
		code = &contextCode{modules: make(map[uint64]*module), libraries: make(map[*library]*module)}
		d.codes[c] = code
	}
	return code
}

// dropCode gives back the code of a context whose work has ended.
func (d *Device) dropCode(c *contexts.Context) {
	code := d.code(c)
	for _, m := range code.modules {
		d.unload(m)
	}
	for _, m := range code.libraries {
		d.unload(m)
	}
	if code.heap != nil {
		d.DeferFree(code.heapAddress)
		code.heap.Close()
	}
	for _, object := range d.handles.All() {
		if l, ok := object.(*link); ok && l.ctx == c {
			l.close()
		}
	}
	delete(d.codes, c)
}

// addHeap makes the heap of the context's kernels.
func (d *Device) addHeap(c *contexts.Context) gpubackend.Result {
	size, code := c.HeapSize(), d.code(c)
	if code.heap != nil || size == 0 {
		return gpubackend.Success
	}
	addr, result := d.Memory.Alloc(size)
	if result == gpubackend.Success {
		code.heapAddress, code.heap = addr, simt.NewHeap(addr, size, d.options.HostMemory)
		c.FixHeap()
	}
	return result
}

// unload gives back what a module has. Kernels that run keep the program; the memory waits for them.
func (d *Device) unload(m *module) {
	if m.block != 0 {
		d.DeferFree(m.block)
		m.block = 0
	}
	for _, f := range m.functions {
		d.handles.Remove(f.handle)
	}
	d.dropReferences(m)
	d.After(m.memory.Close)
	d.handles.Remove(m.handle)
	delete(m.code.modules, m.handle)
}

// ModuleLoadData implements gpubackend.Driver. NotReady says that the module has managed variables.
func (d *Device) ModuleLoadData(
	image, options, infoLog, errorLog []byte,
) (h gpubackend.Module, infoUsed, errorUsed uint64, result gpubackend.Result) {
	return d.loadModule(image, options, 0, infoLog, errorLog)
}

func (d *Device) loadModule(
	image, options []byte, managed uint64, infoLog, errorLog []byte,
) (h gpubackend.Module, infoUsed, errorUsed uint64, result gpubackend.Result) {
	c, result := d.Current()
	if result != gpubackend.Success {
		return 0, 0, 0, result
	}
	log := &buildLog{info: infoLog, errors: errorLog}
	defer func() { infoUsed, errorUsed = log.infoUsed, log.errorsUsed }()
	parsed, program, memory, result := d.build(image, options, log)
	if result != gpubackend.Success {
		return 0, 0, 0, result
	}
	memory.Give(parsed.DropBodies())
	m, result := d.place(c, parsed, program, memory, managedBlock{addr: managed}, log)
	if result != gpubackend.Success {
		return 0, 0, 0, result
	}
	m.handle = d.handles.Add(m)
	m.code.modules[m.handle] = m
	return gpubackend.Module(m.handle), 0, 0, gpubackend.Success
}

// module returns the module of a handle if its context is usable.
func (d *Device) module(h gpubackend.Module) (*module, gpubackend.Result) {
	if _, result := d.Current(); result != gpubackend.Success {
		return nil, result
	}
	m, ok := handles.Find[*module](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return m, m.ctx.State()
}

// ModuleUnload implements gpubackend.Driver.
func (d *Device) ModuleUnload(h gpubackend.Module) gpubackend.Result {
	m, result := d.module(h)
	if result != gpubackend.Success {
		return result
	}
	if m.library != nil {
		return gpubackend.NotPermitted // it goes with its library
	}
	d.unload(m)
	d.Reclaim()
	return gpubackend.Success
}

// ModuleGetFunction implements gpubackend.Driver.
func (d *Device) ModuleGetFunction(h gpubackend.Module, name string) (gpubackend.Function, gpubackend.Result) {
	m, result := d.module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	f, result := d.function(m, name)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Function(f.handle), result
}

// ModuleGetGlobal implements gpubackend.Driver.
func (d *Device) ModuleGetGlobal(h gpubackend.Module, name string) (addr, bytes uint64, result gpubackend.Result) {
	m, result := d.module(h)
	if result != gpubackend.Success {
		return 0, 0, result
	}
	return m.global(name)
}

// global returns a variable. The name of a kernel is a wrong argument rather than an unknown name.
func (m *module) global(name string) (addr, bytes uint64, result gpubackend.Result) {
	g, ok := m.globals[name]
	switch {
	case ok:
		return g.addr, g.size, gpubackend.Success
	case name == "" || m.program.Kernel(name) != nil:
		return 0, 0, gpubackend.InvalidValue
	}
	return 0, 0, gpubackend.NotFound
}

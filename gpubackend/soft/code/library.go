// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// library is a CUlibrary: an image that each context makes a module of when it first needs it.
type library struct {
	managed   uint64            // address of its managed variables, 0 for none
	variables map[string]global // those, at offsets
	filled    bool              // they have had their initial content
	parsed    *ptx.Module
	spare     *decoded.Program // made when the library was loaded, for the first context
	kernels   []*kernelObject
	handle    uint64
	memory    *budget.Account // of the host's
}

// kernelObject is a CUkernel: a function of a library before it has a context.
type kernelObject struct {
	library *library
	entry   *decoded.Kernel
	handle  uint64
	attributes
}

// LibraryLoadData implements gpubackend.Driver. NotReady says that the library has managed
// variables.
func (x *Code) LibraryLoadData(
	image, options, infoLog, errorLog []byte,
) (h gpubackend.Library, infoUsed, errorUsed uint64, result gpubackend.Result) {
	return x.loadLibrary(image, options, 0, infoLog, errorLog)
}

func (x *Code) loadLibrary(
	image, options []byte, managed uint64, infoLog, errorLog []byte,
) (h gpubackend.Library, infoUsed, errorUsed uint64, result gpubackend.Result) {
	if x.options.Memory.Space() == nil {
		return 0, 0, 0, gpubackend.NotInitialized
	}
	log := &buildLog{info: infoLog, errors: errorLog}
	parsed, program, memory, result := x.build(image, options, log)
	if result == gpubackend.Success {
		result = x.checkManaged(program, managed)
	}
	if result != gpubackend.Success {
		memory.Close()
		return 0, log.infoUsed, log.errorsUsed, result
	}
	l := &library{managed: managed, parsed: parsed, spare: program, memory: memory}
	l.variables, _, _ = managedVariables(program)
	for _, k := range program.Kernels() {
		o := &kernelObject{library: l, entry: k, attributes: newAttributes(k)}
		o.handle = x.options.Handles.Add(o)
		l.kernels = append(l.kernels, o)
	}
	l.handle = x.options.Handles.Add(l)
	return gpubackend.Library(l.handle), log.infoUsed, log.errorsUsed, gpubackend.Success
}

func (x *Code) library(h gpubackend.Library) (*library, gpubackend.Result) {
	return handles.Of[*library](x.options.Handles, uint64(h), gpubackend.InvalidHandle)
}

// LibraryUnload implements gpubackend.Driver.
func (x *Code) LibraryUnload(h gpubackend.Library) gpubackend.Result {
	l, result := x.library(h)
	if result != gpubackend.Success {
		return result
	}
	for _, code := range x.sets {
		if m := code.libraries[l]; m != nil {
			x.unload(m)
			delete(code.libraries, l)
		}
	}
	for _, k := range l.kernels {
		x.options.Handles.Remove(k.handle)
	}
	x.options.Handles.Remove(uint64(h))
	x.options.Memory.After(l.memory.Close)
	x.options.Memory.Reclaim()
	return gpubackend.Success
}

// LibraryGetKernel implements gpubackend.Driver.
func (x *Code) LibraryGetKernel(
	h gpubackend.Library, name string,
) (gpubackend.Kernel, gpubackend.Result) {
	l, result := x.library(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if name == "" {
		return 0, gpubackend.InvalidValue
	}
	for _, k := range l.kernels {
		if k.entry.Name == name {
			return gpubackend.Kernel(k.handle), gpubackend.Success
		}
	}
	return 0, gpubackend.NotFound
}

// LibraryGetKernelCount implements gpubackend.Driver.
func (x *Code) LibraryGetKernelCount(h gpubackend.Library) (uint64, gpubackend.Result) {
	l, result := x.library(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return uint64(len(l.kernels)), gpubackend.Success
}

// LibraryEnumerateKernels implements gpubackend.Driver. Kernels are in the order of their names.
func (x *Code) LibraryEnumerateKernels(
	index uint64, h gpubackend.Library,
) (gpubackend.Kernel, gpubackend.Result) {
	l, result := x.library(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if index >= uint64(len(l.kernels)) {
		return 0, gpubackend.InvalidValue
	}
	return gpubackend.Kernel(l.kernels[index].handle), gpubackend.Success
}

// moduleOf returns the library's module in a context.
func (x *Code) moduleOf(c *contexts.Context, l *library) (*Module, gpubackend.Result) {
	if m := x.set(c).libraries[l]; m != nil {
		return m, gpubackend.Success
	}
	program, memory := l.spare, x.options.Host.Open()
	if program == nil {
		var result gpubackend.Result
		if program, result = load(l.parsed, &buildLog{}, memory); result != gpubackend.Success {
			memory.Close()
			return nil, result
		}
	}
	l.spare = nil
	m, result := x.place(c, l.parsed, program, memory, managedMemory{l.managed, l.filled},
		&buildLog{})
	if result != gpubackend.Success {
		return nil, result
	}
	l.filled = true
	m.library = l
	m.handle = x.options.Handles.Add(m)
	m.set.libraries[l] = m
	return m, gpubackend.Success
}

// libraryModule returns the library's module in the current context.
func (x *Code) libraryModule(h gpubackend.Library) (*Module, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return nil, result
	}
	l, result := x.library(h)
	if result != gpubackend.Success {
		return nil, result
	}
	return x.moduleOf(c, l)
}

// LibraryGetModule implements gpubackend.Driver.
func (x *Code) LibraryGetModule(h gpubackend.Library) (gpubackend.Module, gpubackend.Result) {
	m, result := x.libraryModule(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Module(m.handle), gpubackend.Success
}

// LibraryGetGlobal implements gpubackend.Driver.
func (x *Code) LibraryGetGlobal(
	h gpubackend.Library, name string,
) (addr, bytes uint64, result gpubackend.Result) {
	m, result := x.libraryModule(h)
	if result != gpubackend.Success {
		return 0, 0, result
	}
	return m.global(name)
}

func (x *Code) kernelObject(h gpubackend.Kernel) (*kernelObject, gpubackend.Result) {
	return handles.Of[*kernelObject](x.options.Handles, uint64(h), gpubackend.InvalidHandle)
}

// functionOf returns the kernel's function in a context.
func (x *Code) functionOf(c *contexts.Context, k *kernelObject) (*Function, gpubackend.Result) {
	m, result := x.moduleOf(c, k.library)
	if result != gpubackend.Success {
		return nil, result
	}
	f, result := x.functionNamed(m, k.entry.Name)
	if result == gpubackend.Success {
		f.kernel = k
	}
	return f, result
}

// KernelGetFunction implements gpubackend.Driver.
func (x *Code) KernelGetFunction(h gpubackend.Kernel) (gpubackend.Function, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	k, result := x.kernelObject(h)
	if result != gpubackend.Success {
		return 0, result
	}
	f, result := x.functionOf(c, k)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Function(f.handle), gpubackend.Success
}

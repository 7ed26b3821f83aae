// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
)

// Managed variables lie together in registered host memory, which the guest gives before the
// program is linked: ManagedBytes says how large it must be.

// managedMemory is such memory.
type managedMemory struct {
	addr   uint64 // 0 for none
	filled bool   // with initial content, by a library's module in another context
}

// ManagedBytes implements gpubackend.Driver.
func (x *Code) ManagedBytes(image []byte) (uint64, gpubackend.Result) {
	_, program, memory, result := x.build(image, nil, &buildLog{})
	if result != gpubackend.Success {
		return 0, result
	}
	defer memory.Close()
	return managedSize(program)
}

// managedSize is the size of a program's managed variables.
func managedSize(program *decoded.Program) (uint64, gpubackend.Result) {
	_, size, result := managedVariables(program)
	return size, result
}

// managedVariables returns a program's managed variables, with their offsets, and the size of them
// all.
func managedVariables(program *decoded.Program) (map[string]global, uint64, gpubackend.Result) {
	m := &Module{Program: program, globals: make(map[string]global)}
	size, result := m.layOut(true)
	return m.globals, size, result
}

// checkManaged tells whether a program's managed variables can be at an address, 0 for none.
// NotReady says that it has some and needs one.
func (x *Code) checkManaged(program *decoded.Program, managed uint64) gpubackend.Result {
	size, result := managedSize(program)
	switch {
	case result != gpubackend.Success || size == 0 && managed == 0:
		return result
	case managed == 0:
		return gpubackend.NotReady
	case size == 0 || managed%devmem.Alignment != 0 || x.options.Memory.Space().InWindow(managed) ||
		!x.options.Memory.Space().Covers(managed, size, true):
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// ModuleLoadManaged implements gpubackend.Driver.
func (x *Code) ModuleLoadManaged(
	image, options []byte, managed uint64, infoLog, errorLog []byte,
) (h gpubackend.Module, infoUsed, errorUsed uint64, result gpubackend.Result) {
	if managed == 0 {
		return 0, 0, 0, gpubackend.InvalidValue
	}
	return x.loadModule(image, options, managed, infoLog, errorLog)
}

// LibraryLoadManaged implements gpubackend.Driver. The memory is written at once where there is a
// context, or with the first one.
func (x *Code) LibraryLoadManaged(
	image, options []byte, managed uint64, infoLog, errorLog []byte,
) (h gpubackend.Library, infoUsed, errorUsed uint64, result gpubackend.Result) {
	if managed == 0 {
		return 0, 0, 0, gpubackend.InvalidValue
	}
	h, infoUsed, errorUsed, result = x.loadLibrary(image, options, managed, infoLog, errorLog)
	if result == gpubackend.Success {
		for _, c := range x.options.Contexts.All() {
			x.FillLibraries(c)
		}
	}
	return h, infoUsed, errorUsed, result
}

// FillLibraries gives the managed variables of libraries their initial content, in a usable
// context, unless they have it already: the program may touch them from now on. What fails is
// reported when a context needs the library.
func (x *Code) FillLibraries(c *contexts.Context) {
	if c.State() != gpubackend.Success {
		return
	}
	for _, object := range x.options.Handles.All() {
		if l, ok := object.(*library); ok && l.managed != 0 && !l.filled {
			x.moduleOf(c, l)
		}
	}
}

// LibraryGetManaged implements gpubackend.Driver. The variables are those of all contexts, and
// known before there is one.
func (x *Code) LibraryGetManaged(
	h gpubackend.Library, name string,
) (addr, bytes uint64, result gpubackend.Result) {
	l, result := x.library(h)
	if result != gpubackend.Success {
		return 0, 0, result
	}
	g, ok := l.variables[name]
	if !ok {
		return 0, 0, gpubackend.NotFound
	}
	return l.managed + g.addr, g.size, gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/kernelheap"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
)

// Options are what a device's code is given.
type Options struct {
	Host     *budget.Budget
	Handles  *handles.Table
	Contexts *contexts.Contexts
	Memory   *memory.Memory
	// Unloaded is called when a module is gone, for others to forget it.
	Unloaded func(*Module)
}

// Code is the code of a device: modules, libraries, functions and links.
type Code struct {
	options Options
	sets    map[*contexts.Context]*codeSet
}

// New returns the code of a device, which has none yet.
func New(o Options) *Code {
	return &Code{options: o, sets: make(map[*contexts.Context]*codeSet)}
}

// codeSet is the code in a context.
type codeSet struct {
	modules     map[uint64]*Module   // loaded as such, by handle
	libraries   map[*library]*Module // those of libraries that the context uses
	heap        *kernelheap.Heap     // of kernels' malloc; nil until a module wants it
	heapAddress uint64
}

// set returns the code in a context.
func (x *Code) set(c *contexts.Context) *codeSet {
	code := x.sets[c]
	if code == nil {
		code = &codeSet{modules: make(map[uint64]*Module), libraries: make(map[*library]*Module)}
		x.sets[c] = code
	}
	return code
}

// Drop gives back the code of a context whose work has ended.
func (x *Code) Drop(c *contexts.Context) {
	code := x.set(c)
	for _, m := range code.modules {
		x.unload(m)
	}
	for _, m := range code.libraries {
		x.unload(m)
	}
	if code.heap != nil {
		x.options.Memory.DeferFree(code.heapAddress)
		code.heap.Close()
	}
	for _, object := range x.options.Handles.All() {
		if l, ok := object.(*linker); ok && l.Context == c {
			l.close()
		}
	}
	delete(x.sets, c)
}

// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// Options are what a device's textures are given.
type Options struct {
	Host     *budget.Budget
	Handles  *handles.Table
	Contexts *contexts.Contexts
	Memory   *memory.Memory
	Code     *code.Code
}

// Textures are the arrays, textures and surfaces of a device, and the references of its modules.
type Textures struct {
	options Options
	arrays  map[*contexts.Context]map[uint64]bool // addresses of their memory
	objects objects
	modules map[*code.Module]*references
	made    map[*contexts.Context]int // references made by TexRefCreate
}

// New returns the textures of a device, which has none yet.
func New(o Options) *Textures {
	return &Textures{
		options: o, arrays: make(map[*contexts.Context]map[uint64]bool),
		modules: make(map[*code.Module]*references), made: make(map[*contexts.Context]int),
	}
}

// KernelObjects is where kernels find texture and surface objects.
func (x *Textures) KernelObjects() simt.Objects { return &x.objects }

// Count is how many texture and surface objects there are.
func (x *Textures) Count() int { return x.objects.count }

// Drop gives back the arrays, textures and surfaces of a context whose work has ended.
func (x *Textures) Drop(c *contexts.Context) {
	for base := range x.arrays[c] {
		x.options.Memory.DeferFree(base)
	}
	delete(x.arrays, c)
	delete(x.made, c)
	x.dropObjects(c)
}

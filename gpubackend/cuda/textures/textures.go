// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/memory"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	ArrayCreate(desc []byte) (gpubackend.Array, gpubackend.Result)
	Array3DCreate(desc []byte) (gpubackend.Array, gpubackend.Result)
	ArrayDestroy(a gpubackend.Array) gpubackend.Result
	MipmappedArrayCreate(desc []byte, levels uint64) (gpubackend.MipmappedArray, gpubackend.Result)
	MipmappedArrayDestroy(a gpubackend.MipmappedArray) gpubackend.Result
	MipmappedArrayGetLevel(m gpubackend.MipmappedArray, level uint64) (gpubackend.Array,
		gpubackend.Result)
	Memcpy3DAsync(m cmem.Memory, s gpubackend.Stream) gpubackend.Result
	CtxSynchronize() gpubackend.Result

	NewTexture(resource, texture, view []byte) (uint64, gpubackend.Result)
	NewSurface(resource []byte) (uint64, gpubackend.Result)
	TexObjectDestroy(t uint64) gpubackend.Result
	SurfObjectDestroy(s uint64) gpubackend.Result

	ModuleGetTexRef(m gpubackend.Module, name string) (gpubackend.TextureReference,
		gpubackend.Result)
	ModuleGetSurfRef(m gpubackend.Module, name string) (gpubackend.SurfaceReference,
		gpubackend.Result)
}

// Textures is the arrays, textures and surfaces of one guest process.
type Textures struct {
	calls    Calls
	contexts *contexts.Contexts
	ranges   *copyable.Ranges
	charges  *memory.Charges
	host     *budget.Budget
	referred func()
	backed   func(addr uint64) bool

	textures, surfaces objects
	linear             map[uint64]uint64 // addresses of memory, by the texture that shows it
	arrays             map[uint64]*array // by handle

	// While they are made again:
	place    uint64   // of the array that is made next; 0: none
	wanted   uint64   // number of the texture or surface that is made next; 0: any
	contents [][]byte // of arrays, by place
	fillers  []func() // which end what was made to get at numbers
}

// New returns the textures of a process, which has none yet. charges counts arrays; objects count
// as the host's memory. referred is called when a module's texture or surface reference was asked
// for: kernels may use it from then on. backed says whether there is memory at an address.
func New(
	calls Calls, x *contexts.Contexts, ranges *copyable.Ranges, charges *memory.Charges,
	host *budget.Budget, referred func(), backed func(addr uint64) bool,
) *Textures {
	return &Textures{
		calls: calls, contexts: x, ranges: ranges, charges: charges, host: host, referred: referred,
		backed:   backed,
		textures: objects{}, surfaces: objects{},
		linear: make(map[uint64]uint64), arrays: make(map[uint64]*array),
	}
}

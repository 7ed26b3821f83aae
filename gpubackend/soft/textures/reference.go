// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// MaxReferences bounds the texture references that a context has made by TexRefCreate.
const MaxReferences = 1 << 16

// textureReference is a CUtexref: of a module, or made by TexRefCreate. Launches see it as it is
// when they are queued.
type textureReference struct {
	Context *contexts.Context
	module  *code.Module // nil for one made by TexRefCreate
	index   int          // among the module's references
	handle  uint64

	format   sampler.Format
	channels uint32
	sampling sampling

	// What it reads: one of these, or none.
	array     *array
	mipmapped *mipmappedArray
	linear    memoryRange
	rows      memoryRows
}

// memoryRange is linear memory from an aligned address on.
type memoryRange struct{ addr, bytes uint64 }

// memoryRows are rows of texels in memory.
type memoryRows struct{ addr, width, height, pitch uint64 }

// surfaceReference is a CUsurfref.
type surfaceReference struct {
	module *code.Module
	index  int
	handle uint64
	array  *array
}

// Owner implements contexts.Owned.
func (r *textureReference) Owner() *contexts.Context { return r.Context }

// Owner implements contexts.Owned.
func (r *surfaceReference) Owner() *contexts.Context { return r.module.Context }

// newTextureReference makes a reference in its initial state: texels of one float, read by number,
// clamped at the edges.
func newTextureReference(c *contexts.Context) *textureReference {
	r := &textureReference{Context: c, format: sampler.FormatFloat, channels: 1}
	for i := range r.sampling.address {
		r.sampling.address[i] = uint32(sampler.AddressClamp)
	}
	return r
}

// references are the references of a module that somebody has asked for, by number, and what they
// are bound to.
type references struct {
	textures map[int]*textureReference
	surfaces map[int]*surfaceReference
	// nil when something has changed since they were made; never changed in place
	bindings []simt.Binding
}

// refs are the references of a module.
func (x *Textures) refs(m *code.Module) *references {
	refs := x.modules[m]
	if refs == nil {
		refs = &references{}
		x.modules[m] = refs
	}
	return refs
}

// indexOf finds a reference of a module by name.
func indexOf(m *code.Module, name string, surface bool) (int, gpubackend.Result) {
	for i, r := range m.Program.References() {
		if r.Name == name && r.Surface == surface {
			return i, gpubackend.Success
		}
	}
	if name == "" {
		return 0, gpubackend.InvalidValue
	}
	return 0, gpubackend.NotFound
}

// ModuleGetTexRef implements gpubackend.Driver. It is the same one each time.
func (x *Textures) ModuleGetTexRef(
	h gpubackend.Module, name string,
) (gpubackend.TextureReference, gpubackend.Result) {
	m, result := x.options.Code.Module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	i, result := indexOf(m, name, false)
	if result != gpubackend.Success {
		return 0, result
	}
	r := x.refs(m).textures[i]
	if r == nil {
		r = newTextureReference(m.Context)
		r.module, r.index, r.handle = m, i, x.options.Handles.Add(r)
		if x.refs(m).textures == nil {
			x.refs(m).textures = make(map[int]*textureReference)
		}
		x.refs(m).textures[i] = r
	}
	return gpubackend.TextureReference(r.handle), gpubackend.Success
}

// ModuleGetSurfRef implements gpubackend.Driver. It is the same one each time.
func (x *Textures) ModuleGetSurfRef(
	h gpubackend.Module, name string,
) (gpubackend.SurfaceReference, gpubackend.Result) {
	m, result := x.options.Code.Module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	i, result := indexOf(m, name, true)
	if result != gpubackend.Success {
		return 0, result
	}
	r := x.refs(m).surfaces[i]
	if r == nil {
		r = &surfaceReference{module: m, index: i}
		r.handle = x.options.Handles.Add(r)
		if x.refs(m).surfaces == nil {
			x.refs(m).surfaces = make(map[int]*surfaceReference)
		}
		x.refs(m).surfaces[i] = r
	}
	return gpubackend.SurfaceReference(r.handle), gpubackend.Success
}

// Unloaded forgets the references of a module that is unloaded.
func (x *Textures) Unloaded(m *code.Module) {
	for _, r := range x.refs(m).textures {
		x.options.Handles.Remove(r.handle)
	}
	for _, r := range x.refs(m).surfaces {
		x.options.Handles.Remove(r.handle)
	}
	delete(x.modules, m)
}

// Bindings are what a launch of the module's kernels sees.
func (x *Textures) Bindings(m *code.Module) []simt.Binding {
	n := len(m.Program.References())
	if n == 0 {
		return nil
	}
	refs := x.refs(m)
	if refs.bindings == nil {
		b := make([]simt.Binding, n)
		for i, r := range refs.textures {
			b[i].Texture = x.bound(r)
		}
		for i, r := range refs.surfaces {
			if r.array != nil {
				b[i].Surface, _ = surfaceOf(r.array) // it was one when it was bound
			}
		}
		refs.bindings = b
	}
	return refs.bindings
}

// bound is what kernels use of a reference, nil if it isn't bound, or if what it was bound to is
// gone.
func (x *Textures) bound(r *textureReference) *sampler.Texture {
	var from source
	result := gpubackend.Success
	switch {
	case r.array != nil:
		from = arraySource(r.array)
		from.format, from.channels = r.format, r.channels
	case r.mipmapped != nil:
		from = mipmappedSource(r.mipmapped)
		from.format, from.channels = r.format, r.channels
	case r.linear != memoryRange{}:
		from, result = x.linearSource(r.linear.addr, r.linear.bytes, r.format, r.channels)
	case r.rows != memoryRows{}:
		from, result = x.pitchSource(r.rows.addr, r.rows.width, r.rows.height, r.rows.pitch,
			r.format, r.channels)
	default:
		return nil
	}
	if result != gpubackend.Success {
		return nil
	}
	return textureOf(&from, &r.sampling)
}

// TexRefCreate implements gpubackend.Driver. No kernel uses such a reference.
func (x *Textures) TexRefCreate() (gpubackend.TextureReference, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	if x.made[c] >= MaxReferences {
		return 0, gpubackend.OutOfMemory
	}
	x.made[c]++
	r := newTextureReference(c)
	r.handle = x.options.Handles.Add(r)
	return gpubackend.TextureReference(r.handle), gpubackend.Success
}

// TexRefDestroy implements gpubackend.Driver. Those of modules go with them.
func (x *Textures) TexRefDestroy(h gpubackend.TextureReference) gpubackend.Result {
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return result
	}
	if r.module != nil {
		return gpubackend.InvalidValue
	}
	x.made[r.Context]--
	x.options.Handles.Remove(r.handle)
	return gpubackend.Success
}

// textureReference finds a texture reference.
func (x *Textures) textureReference(
	h gpubackend.TextureReference,
) (*textureReference, gpubackend.Result) {
	if _, result := x.options.Contexts.Current(); result != gpubackend.Success {
		return nil, result
	}
	r, ok := handles.Find[*textureReference](x.options.Handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return r, r.Context.State()
}

// changing is textureReference for a call that changes it.
func (x *Textures) changing(h gpubackend.TextureReference) (*textureReference, gpubackend.Result) {
	r, result := x.textureReference(h)
	if result == gpubackend.Success && r.module != nil {
		x.refs(r.module).bindings = nil
	}
	return r, result
}

// surfaceReference finds a surface reference.
func (x *Textures) surfaceReference(
	h gpubackend.SurfaceReference,
) (*surfaceReference, gpubackend.Result) {
	if _, result := x.options.Contexts.Current(); result != gpubackend.Success {
		return nil, result
	}
	r, ok := handles.Find[*surfaceReference](x.options.Handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return r, r.module.Context.State()
}

// SurfRefSetArray implements gpubackend.Driver. There are no flags.
func (x *Textures) SurfRefSetArray(
	h gpubackend.SurfaceReference, a gpubackend.Array, flags uint64,
) gpubackend.Result {
	r, result := x.surfaceReference(h)
	if result != gpubackend.Success {
		return result
	}
	array, result := x.Array(a)
	if result != gpubackend.Success {
		return result
	}
	if flags != 0 {
		return gpubackend.InvalidValue
	}
	if _, result := surfaceOf(array); result != gpubackend.Success {
		return result
	}
	r.array, x.refs(r.module).bindings = array, nil
	return gpubackend.Success
}

// SurfRefGetArray implements gpubackend.Driver.
func (x *Textures) SurfRefGetArray(
	h gpubackend.SurfaceReference,
) (gpubackend.Array, gpubackend.Result) {
	r, result := x.surfaceReference(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if r.array == nil {
		return 0, gpubackend.InvalidValue
	}
	return gpubackend.Array(r.array.handle), gpubackend.Success
}

// ParamSetTexRef implements gpubackend.Driver. All functions of a module see its references anyway:
// there is nothing to do.
func (x *Textures) ParamSetTexRef(
	f gpubackend.Function, unit uint64, h gpubackend.TextureReference,
) gpubackend.Result {
	function, result := x.options.Code.Function(f)
	if result != gpubackend.Success {
		return result
	}
	r, result := x.textureReference(h)
	if result != gpubackend.Success {
		return result
	}
	if int32(unit) != cudaabi.ParamTrDefault || r.module != function.Module {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// maxReferences bounds the texture references that a context has made by TexRefCreate.
const maxReferences = 1 << 16

// textureReference is a CUtexref: of a module, or made by TexRefCreate. Launches get what it is when they are queued.
type textureReference struct {
	ctx    *contexts.Context
	module *module // nil for one made by TexRefCreate
	index  int     // among the module's references
	handle uint64

	format   simt.Format
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
	module *module
	index  int
	handle uint64
	array  *array
}

func (r *textureReference) Owner() *contexts.Context { return r.ctx }
func (r *surfaceReference) Owner() *contexts.Context { return r.module.ctx }

// newTextureReference is one in its first state: a float a texel, read by number, clamped at the edges.
func newTextureReference(c *contexts.Context) *textureReference {
	r := &textureReference{ctx: c, format: simt.FormatFloat, channels: 1}
	for i := range r.sampling.address {
		r.sampling.address[i] = uint32(simt.AddressClamp)
	}
	return r
}

// references are those of a module that somebody has asked for, by number, and what they are bound to.
type references struct {
	textures map[int]*textureReference
	surfaces map[int]*surfaceReference
	bindings []simt.Binding // nil when something has changed since they were made; never changed after that
}

// index finds a reference of the module by name.
func (m *module) index(name string, surface bool) (int, gpubackend.Result) {
	for i, r := range m.program.References() {
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
func (d *Device) ModuleGetTexRef(h gpubackend.Module, name string) (gpubackend.TextureReference, gpubackend.Result) {
	m, result := d.module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	i, result := m.index(name, false)
	if result != gpubackend.Success {
		return 0, result
	}
	r := m.references.textures[i]
	if r == nil {
		r = newTextureReference(m.ctx)
		r.module, r.index, r.handle = m, i, d.handles.Add(r)
		if m.references.textures == nil {
			m.references.textures = make(map[int]*textureReference)
		}
		m.references.textures[i] = r
	}
	return gpubackend.TextureReference(r.handle), gpubackend.Success
}

// ModuleGetSurfRef implements gpubackend.Driver. It is the same one each time.
func (d *Device) ModuleGetSurfRef(h gpubackend.Module, name string) (gpubackend.SurfaceReference, gpubackend.Result) {
	m, result := d.module(h)
	if result != gpubackend.Success {
		return 0, result
	}
	i, result := m.index(name, true)
	if result != gpubackend.Success {
		return 0, result
	}
	r := m.references.surfaces[i]
	if r == nil {
		r = &surfaceReference{module: m, index: i}
		r.handle = d.handles.Add(r)
		if m.references.surfaces == nil {
			m.references.surfaces = make(map[int]*surfaceReference)
		}
		m.references.surfaces[i] = r
	}
	return gpubackend.SurfaceReference(r.handle), gpubackend.Success
}

// dropReferences forgets the references of a module that is unloaded.
func (d *Device) dropReferences(m *module) {
	for _, r := range m.references.textures {
		d.handles.Remove(r.handle)
	}
	for _, r := range m.references.surfaces {
		d.handles.Remove(r.handle)
	}
}

// bindings are what a launch of the module's kernels gets to see.
func (d *Device) bindings(m *module) []simt.Binding {
	n := len(m.program.References())
	if n == 0 {
		return nil
	}
	if m.references.bindings == nil {
		b := make([]simt.Binding, n)
		for i, r := range m.references.textures {
			b[i].Texture = d.bound(r)
		}
		for i, r := range m.references.surfaces {
			if r.array != nil {
				b[i].Surface, _ = surfaceOf(r.array) // it was one when it was bound
			}
		}
		m.references.bindings = b
	}
	return m.references.bindings
}

// bound is what kernels use of a reference, nil if it isn't bound or what it was bound to is gone.
func (d *Device) bound(r *textureReference) *simt.Texture {
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
		from, result = d.linearSource(r.linear.addr, r.linear.bytes, r.format, r.channels)
	case r.rows != memoryRows{}:
		from, result = d.pitchSource(r.rows.addr, r.rows.width, r.rows.height, r.rows.pitch, r.format, r.channels)
	default:
		return nil
	}
	if result != gpubackend.Success {
		return nil
	}
	return textureOf(&from, &r.sampling)
}

// TexRefCreate implements gpubackend.Driver. No kernel uses such a reference.
func (d *Device) TexRefCreate() (gpubackend.TextureReference, gpubackend.Result) {
	c, result := d.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	if d.references[c] >= maxReferences {
		return 0, gpubackend.OutOfMemory
	}
	d.references[c]++
	r := newTextureReference(c)
	r.handle = d.handles.Add(r)
	return gpubackend.TextureReference(r.handle), gpubackend.Success
}

// TexRefDestroy implements gpubackend.Driver. Those of modules go with them.
func (d *Device) TexRefDestroy(h gpubackend.TextureReference) gpubackend.Result {
	r, result := d.textureReference(h)
	if result != gpubackend.Success {
		return result
	}
	if r.module != nil {
		return gpubackend.InvalidValue
	}
	d.references[r.ctx]--
	d.handles.Remove(r.handle)
	return gpubackend.Success
}

// textureReference finds a texture reference.
func (d *Device) textureReference(h gpubackend.TextureReference) (*textureReference, gpubackend.Result) {
	if _, result := d.Current(); result != gpubackend.Success {
		return nil, result
	}
	r, ok := handles.Find[*textureReference](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return r, r.ctx.State()
}

// changing is textureReference for a call that changes it.
func (d *Device) changing(h gpubackend.TextureReference) (*textureReference, gpubackend.Result) {
	r, result := d.textureReference(h)
	if result == gpubackend.Success && r.module != nil {
		r.module.references.bindings = nil
	}
	return r, result
}

// surfaceReference finds a surface reference.
func (d *Device) surfaceReference(h gpubackend.SurfaceReference) (*surfaceReference, gpubackend.Result) {
	if _, result := d.Current(); result != gpubackend.Success {
		return nil, result
	}
	r, ok := handles.Find[*surfaceReference](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return r, r.module.ctx.State()
}

// SurfRefSetArray implements gpubackend.Driver. There are no flags.
func (d *Device) SurfRefSetArray(h gpubackend.SurfaceReference, a gpubackend.Array, flags uint64) gpubackend.Result {
	r, result := d.surfaceReference(h)
	if result != gpubackend.Success {
		return result
	}
	array, result := d.array(a)
	if result != gpubackend.Success {
		return result
	}
	if flags != 0 {
		return gpubackend.InvalidValue
	}
	if _, result := surfaceOf(array); result != gpubackend.Success {
		return result
	}
	r.array, r.module.references.bindings = array, nil
	return gpubackend.Success
}

// SurfRefGetArray implements gpubackend.Driver.
func (d *Device) SurfRefGetArray(h gpubackend.SurfaceReference) (gpubackend.Array, gpubackend.Result) {
	r, result := d.surfaceReference(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if r.array == nil {
		return 0, gpubackend.InvalidValue
	}
	return gpubackend.Array(r.array.handle), gpubackend.Success
}

// ParamSetTexRef implements gpubackend.Driver. All functions of a module see its references, as this call would make
// them: there is nothing to change.
func (d *Device) ParamSetTexRef(f gpubackend.Function, unit uint64, h gpubackend.TextureReference) gpubackend.Result {
	function, result := d.lookup(f)
	if result != gpubackend.Success {
		return result
	}
	r, result := d.textureReference(h)
	if result != gpubackend.Success {
		return result
	}
	if int32(unit) != cudaabi.ParamTrDefault || r.module != function.module {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// endReference refuses to destroy modules' references, which end with their modules.
func (t *Textures) endReference(
	c *call.Call, a command.TexRefDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	if _, ok := t.Objects.Lookup(object.Module, t.Objects.Parent(a.HTexRef)); ok {
		return gpubackend.InvalidValue
	}
	return run(c)
}

func (t *Textures) textureArray(c *call.Call, a command.TexRefGetArray) gpubackend.Result {
	h, result := boundTo(t.Objects, a.Reference, handles.TextureReference, t.Driver.TexRefGetArray,
		object.Array)
	c.Put(command.TexRefGetArrayAnswer{Array: h})
	return result
}

func (t *Textures) textureMipmappedArray(
	c *call.Call, a command.TexRefGetMipmappedArray,
) gpubackend.Result {
	h, result := boundTo(t.Objects, a.Reference, handles.TextureReference,
		t.Driver.TexRefGetMipmappedArray, object.MipmappedArray)
	c.Put(command.TexRefGetMipmappedArrayAnswer{Array: h})
	return result
}

func (t *Textures) surfaceArray(c *call.Call, a command.SurfRefGetArray) gpubackend.Result {
	h, result := boundTo(t.Objects, a.Reference, handles.SurfaceReference, t.Driver.SurfRefGetArray,
		object.Array)
	c.Put(command.SurfRefGetArrayAnswer{Array: h})
	return result
}

// boundTo is the guest's handle of what a reference is bound to. The driver may still name an array
// that was destroyed; the guest has no handle of it any more, and gets none.
func boundTo[Reference, Bound ~uint64](
	objects *object.Table, reference uint64,
	find func(*object.Table, uint64) (Reference, gpubackend.Result),
	get func(Reference) (Bound, gpubackend.Result), kind object.Kind,
) (uint64, gpubackend.Result) {
	r, result := find(objects, reference)
	if result != gpubackend.Success {
		return 0, result
	}
	bound, result := get(r)
	if result != gpubackend.Success {
		return 0, result
	}
	handle := objects.Existing(kind, uint64(bound))
	if handle == 0 {
		return 0, gpubackend.InvalidValue
	}
	return handle, gpubackend.Success
}

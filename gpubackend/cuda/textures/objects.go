// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// objects are textures or surfaces, with the contexts that they end with: the driver is only given
// those that it made.
type objects map[uint64]*contexts.Context

// ObjectBytes is what one counts for of the host's memory.
const ObjectBytes = 4 << 10

// Objects is how many there are.
func (x *Textures) Objects() int { return len(x.textures) + len(x.surfaces) }

// remember notes what the driver has just made.
func (x *Textures) remember(
	set objects, h uint64, r gpubackend.Result,
) (uint64, gpubackend.Result) {
	if r != gpubackend.Success {
		return 0, r
	}
	if _, known := set[h]; !known {
		x.host.Force(ObjectBytes)
	}
	set[h] = x.contexts.Home()
	return h, r
}

// forget says whether there was one.
func (x *Textures) forget(set objects, h uint64) bool {
	if _, known := set[h]; !known {
		return false
	}
	delete(set, h)
	delete(x.linear, h)
	x.host.Give(ObjectBytes)
	return true
}

// Ended forgets the objects of a context that has ended.
func (x *Textures) Ended(c *contexts.Context) {
	x.charges.Ended(c)
	for h, a := range x.arrays {
		if a.owner == c {
			delete(x.arrays, h)
		}
	}
	for _, set := range []objects{x.textures, x.surfaces} {
		for h, owner := range set {
			if owner == c {
				x.forget(set, h)
			}
		}
	}
}

// kindOf is the kind of a resource that is described.
func kindOf(resource []byte) uint32 {
	if len(resource) < cudaabi.ResourceDescSize {
		return cudaabi.ResourceArray
	}
	return cudaabi.ResourceDesc(resource).ResType()
}

// TexObjectCreate makes a texture.
func (x *Textures) TexObjectCreate(resource, texture, view []byte) (uint64, gpubackend.Result) {
	if !x.host.Room(ObjectBytes) {
		return 0, gpubackend.OutOfMemory
	}
	h, r := x.numbered(func() (uint64, gpubackend.Result) {
		return x.calls.NewTexture(resource, texture, view)
	}, x.calls.TexObjectDestroy)
	if kind := kindOf(resource); r == gpubackend.Success && (kind == cudaabi.ResourceLinear ||
		kind == cudaabi.ResourcePitch2D) {
		x.linear[h] = cudaabi.ResourceDesc(resource).LinearDevPtr()
	}
	return x.remember(x.textures, h, r)
}

// SurfObjectCreate makes a surface.
func (x *Textures) SurfObjectCreate(resource []byte) (uint64, gpubackend.Result) {
	if !x.host.Room(ObjectBytes) {
		return 0, gpubackend.OutOfMemory
	}
	h, r := x.numbered(func() (uint64, gpubackend.Result) {
		return x.calls.NewSurface(resource)
	}, x.calls.SurfObjectDestroy)
	return x.remember(x.surfaces, h, r)
}

// TexObjectDestroy destroys a texture.
func (x *Textures) TexObjectDestroy(t uint64) gpubackend.Result {
	if !x.forget(x.textures, t) {
		return gpubackend.InvalidValue
	}
	return x.calls.TexObjectDestroy(t)
}

// SurfObjectDestroy destroys a surface.
func (x *Textures) SurfObjectDestroy(s uint64) gpubackend.Result {
	if !x.forget(x.surfaces, s) {
		return gpubackend.InvalidValue
	}
	return x.calls.SurfObjectDestroy(s)
}

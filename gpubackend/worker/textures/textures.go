// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// Driver is what Textures use of gpubackend.Driver.
type Driver interface {
	TexObjectCreate(resource, texture, view []byte) (uint64, gpubackend.Result)
	SurfObjectCreate(resource []byte) (uint64, gpubackend.Result)
	CopyArray(copy []byte, s gpubackend.Stream) gpubackend.Result
	TexRefGetArray(r gpubackend.TextureReference) (gpubackend.Array, gpubackend.Result)
	TexRefGetMipmappedArray(r gpubackend.TextureReference) (gpubackend.MipmappedArray,
		gpubackend.Result)
	SurfRefGetArray(r gpubackend.SurfaceReference) (gpubackend.Array, gpubackend.Result)
}

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Config is what Textures need.
type Config struct {
	Driver  Driver
	Objects *object.Table
	Streams Streams
}

// Textures makes textures and surfaces and copies arrays.
type Textures struct{ Config }

// New returns a Textures.
func New(c Config) *Textures { return &Textures{c} }

// Handlers are the commands that a Textures executes.
func (t *Textures) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpTexObjectCreate: call.Decoded(command.DecodeTexObjectCreate,
			t.createTexture),
		gpubackend.OpSurfObjectCreate: call.Decoded(command.DecodeSurfObjectCreate,
			t.createSurface),
		gpubackend.OpCopyArray: call.Decoded(command.DecodeCopyArray, t.copyArray),
		gpubackend.OpTexRefGetArray: call.Decoded(command.DecodeTexRefGetArray,
			t.textureArray),
		gpubackend.OpSurfRefGetArray: call.Decoded(command.DecodeSurfRefGetArray,
			t.surfaceArray),
		gpubackend.OpTexRefGetMipmappedArray: call.Decoded(command.DecodeTexRefGetMipmappedArray,
			t.textureMipmappedArray),
	}
}

// Steps are what is done around the handlers of others.
func (t *Textures) Steps() call.Steps {
	return call.Steps{
		gpubackend.OpTexRefDestroy: call.Around(command.DecodeTexRefDestroy, t.endReference),
	}
}

// resource returns a resource description with the driver's handle in it.
func (t *Textures) resource(c *call.Call, r command.Buffer) ([]byte, gpubackend.Result) {
	b, result := c.InputOf(r)
	if result != gpubackend.Success {
		return nil, result
	}
	// A mipmapped array's handle and the address of memory lie where an array's handle does.
	d := cudaabi.ResourceDesc(b)
	handle := d.Array()
	switch kind := d.ResType(); {
	case kind == cudaabi.ResourceArray:
		handle, result = handles.Find[uint64](t.Objects, object.Array, handle,
			gpubackend.InvalidHandle)
	case kind == cudaabi.ResourceMipmappedArray:
		handle, result = handles.Find[uint64](t.Objects, object.MipmappedArray, handle,
			gpubackend.InvalidHandle)
	case kind > cudaabi.ResourcePitch2D:
		result = gpubackend.InvalidValue
	}
	if d.Flags() != 0 {
		return nil, gpubackend.InvalidValue
	}
	d.SetArray(handle)
	return b, result
}

// createTexture makes a texture.
func (t *Textures) createTexture(c *call.Call, a command.TexObjectCreate) gpubackend.Result {
	resource, result := t.resource(c, a.Resource)
	if result != gpubackend.Success {
		return result
	}
	texture, result := c.InputOf(a.Texture)
	if result != gpubackend.Success {
		return result
	}
	if len(texture) > 0 && !allowed.TextureFlags.Has(uint64(cudaabi.TextureDesc(texture).Flags())) {
		return gpubackend.InvalidValue
	}
	view, result := c.InputOf(a.View)
	if result != gpubackend.Success {
		return result
	}
	made, result := t.Driver.TexObjectCreate(resource, texture, view)
	c.Put(command.TexObjectCreateAnswer{Texture: made})
	return result
}

// createSurface makes a surface.
func (t *Textures) createSurface(c *call.Call, a command.SurfObjectCreate) gpubackend.Result {
	resource, result := t.resource(c, a.Resource)
	if result != gpubackend.Success {
		return result
	}
	s, result := t.Driver.SurfObjectCreate(resource)
	c.Put(command.SurfObjectCreateAnswer{Surface: s})
	return result
}

// copyArray copies between arrays and device memory.
func (t *Textures) copyArray(c *call.Call, a command.CopyArray) gpubackend.Result {
	b, result := c.InputOf(a.Copy)
	if result != gpubackend.Success {
		return result
	}
	s, result := t.Streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	m := cudaabi.Memcpy3D(b)
	for _, side := range [...]cudaabi.Memcpy3DSide{m.Src(), m.Dst()} {
		side.SetHost(0)
		side.SetReserved(0)
		switch side.MemoryType() {
		case cudaabi.MemoryTypeArray:
			native, result := handles.Find[uint64](t.Objects, object.Array, side.Array(),
				gpubackend.InvalidHandle)
			if result != gpubackend.Success {
				return result
			}
			side.SetArray(native)
		case cudaabi.MemoryTypeDevice:
			side.SetArray(0)
		default:
			return gpubackend.InvalidValue
		}
	}
	return t.Driver.CopyArray(b, s)
}

// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/command"
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
	TexRefGetMipmappedArray(r gpubackend.TextureReference) (gpubackend.MipmappedArray, gpubackend.Result)
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
		gpubackend.OpTexObjectCreate:         call.Decoded(command.DecodeTexObjectCreate, t.createTexture),
		gpubackend.OpSurfObjectCreate:        call.Decoded(command.DecodeSurfObjectCreate, t.createSurface),
		gpubackend.OpCopyArray:               call.Decoded(command.DecodeCopyArray, t.copyArray),
		gpubackend.OpTexRefGetArray:          call.Decoded(command.DecodeTexRefGetArray, t.textureArray),
		gpubackend.OpSurfRefGetArray:         call.Decoded(command.DecodeSurfRefGetArray, t.surfaceArray),
		gpubackend.OpTexRefGetMipmappedArray: call.Decoded(command.DecodeTexRefGetMipmappedArray, t.textureMipmappedArray),
	}
}

// Steps are what is done around the handlers of others.
func (t *Textures) Steps() call.Steps {
	return call.Steps{gpubackend.OpTexRefDestroy: t.endReference}
}

// CUresourcetype, and where the handle is in a CUDA_RESOURCE_DESC.
const (
	resourceArray     = 0
	resourceMipmapped = 1
	resourcePitch2D   = 3
	resourceHandle    = 8
	resourceFlagsAt   = 136
	textureFlagsAt    = 16 // of a CUDA_TEXTURE_DESC
)

// resource returns a resource description with the driver's handle in it.
func (t *Textures) resource(c *call.Call, r command.Buffer) ([]byte, gpubackend.Result) {
	b, result := c.InputOf(r)
	if result != gpubackend.Success {
		return nil, result
	}
	at := b[resourceHandle:]
	handle := binary.LittleEndian.Uint64(at)
	switch kind := binary.LittleEndian.Uint32(b); {
	case kind == resourceArray:
		handle, result = handles.Find[uint64](t.Objects, object.Array, handle, gpubackend.InvalidHandle)
	case kind == resourceMipmapped:
		handle, result = handles.Find[uint64](t.Objects, object.MipmappedArray, handle, gpubackend.InvalidHandle)
	case kind > resourcePitch2D:
		result = gpubackend.InvalidValue
	}
	if binary.LittleEndian.Uint32(b[resourceFlagsAt:]) != 0 {
		return nil, gpubackend.InvalidValue
	}
	binary.LittleEndian.PutUint64(at, handle)
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
	if len(texture) > 0 && !allowed.TextureFlags.Has(uint64(binary.LittleEndian.Uint32(texture[textureFlagsAt:]))) {
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

// One side of a CUDA_MEMCPY3D: where its memory type, device address and array are.
type copySide struct{ kind, host, device, array, reserved int }

var copySides = []copySide{{32, 40, 48, 56, 64}, {120, 128, 136, 144, 152}}

// CUmemorytype.
const (
	memoryDevice = 2
	memoryArray  = 3
)

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
	for _, side := range copySides {
		binary.LittleEndian.PutUint64(b[side.host:], 0)
		binary.LittleEndian.PutUint64(b[side.reserved:], 0)
		switch binary.LittleEndian.Uint32(b[side.kind:]) {
		case memoryArray:
			native, result := handles.Find[uint64](t.Objects, object.Array, binary.LittleEndian.Uint64(b[side.array:]), gpubackend.InvalidHandle)
			if result != gpubackend.Success {
				return result
			}
			binary.LittleEndian.PutUint64(b[side.array:], native)
		case memoryDevice:
			binary.LittleEndian.PutUint64(b[side.array:], 0)
		default:
			return gpubackend.InvalidValue
		}
	}
	return t.Driver.CopyArray(b, s)
}

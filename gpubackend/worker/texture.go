// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

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
func (w *Worker) resource(c *call.Call, r command.Buffer) ([]byte, gpubackend.Result) {
	b, result := c.InputOf(r)
	if result != gpubackend.Success {
		return nil, result
	}
	at := b[resourceHandle:]
	handle := binary.LittleEndian.Uint64(at)
	switch kind := binary.LittleEndian.Uint32(b); {
	case kind == resourceArray:
		handle, result = handles.Find[uint64](&w.objects, object.Array, handle, gpubackend.InvalidHandle)
	case kind == resourceMipmapped:
		handle, result = handles.Find[uint64](&w.objects, object.MipmappedArray, handle, gpubackend.InvalidHandle)
	case kind > resourcePitch2D:
		result = gpubackend.InvalidValue
	}
	if binary.LittleEndian.Uint32(b[resourceFlagsAt:]) != 0 {
		return nil, gpubackend.InvalidValue
	}
	binary.LittleEndian.PutUint64(at, handle)
	return b, result
}

// runTexObjectCreate makes a texture.
func (w *Worker) runTexObjectCreate(c *call.Call, a command.TexObjectCreate) gpubackend.Result {
	resource, result := w.resource(c, a.Resource)
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
	t, result := w.driver.TexObjectCreate(resource, texture, view)
	c.Put(command.TexObjectCreateAnswer{Texture: t})
	return result
}

// runSurfObjectCreate makes a surface.
func (w *Worker) runSurfObjectCreate(c *call.Call, a command.SurfObjectCreate) gpubackend.Result {
	resource, result := w.resource(c, a.Resource)
	if result != gpubackend.Success {
		return result
	}
	s, result := w.driver.SurfObjectCreate(resource)
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

// runCopyArray copies between arrays and device memory.
func (w *Worker) runCopyArray(c *call.Call, a command.CopyArray) gpubackend.Result {
	b, result := c.InputOf(a.Copy)
	if result != gpubackend.Success {
		return result
	}
	s, result := w.streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	for _, side := range copySides {
		binary.LittleEndian.PutUint64(b[side.host:], 0)
		binary.LittleEndian.PutUint64(b[side.reserved:], 0)
		switch binary.LittleEndian.Uint32(b[side.kind:]) {
		case memoryArray:
			native, result := handles.Find[uint64](&w.objects, object.Array, binary.LittleEndian.Uint64(b[side.array:]), gpubackend.InvalidHandle)
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
	return w.driver.CopyArray(b, s)
}

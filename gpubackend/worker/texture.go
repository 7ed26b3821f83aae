// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
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
func (w *Worker) resource(c *call.Call, i int) ([]byte, gpubackend.Result) {
	b, result := c.Structure(i, cudaabi.ResourceDescSize, false)
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

// runTexObjectCreate makes a texture: resource, texture, view.
func (w *Worker) runTexObjectCreate(c *call.Call) gpubackend.Result {
	resource, result := w.resource(c, 0)
	if result != gpubackend.Success {
		return result
	}
	texture, result := c.Structure(2, cudaabi.TextureDescSize, true)
	if result != gpubackend.Success {
		return result
	}
	if len(texture) > 0 && !allowed.TextureFlags.Has(uint64(binary.LittleEndian.Uint32(texture[textureFlagsAt:]))) {
		return gpubackend.InvalidValue
	}
	view, result := c.Structure(4, cudaabi.ResourceViewDescSize, true)
	if result != gpubackend.Success {
		return result
	}
	t, result := w.driver.TexObjectCreate(resource, texture, view)
	c.Answer(t)
	return result
}

// runSurfObjectCreate makes a surface: resource.
func (w *Worker) runSurfObjectCreate(c *call.Call) gpubackend.Result {
	resource, result := w.resource(c, 0)
	if result != gpubackend.Success {
		return result
	}
	s, result := w.driver.SurfObjectCreate(resource)
	c.Answer(s)
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

// runCopyArray copies between arrays and device memory: description, stream.
func (w *Worker) runCopyArray(c *call.Call) gpubackend.Result {
	b, result := c.Structure(0, cudaabi.Memcpy3DSize, false)
	if result != gpubackend.Success {
		return result
	}
	s, result := w.streams.Find(c, c.Word(2))
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

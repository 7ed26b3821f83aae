// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"bytes"

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
	SavesTextures() bool
	gpubackend.SavingTextures
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
	// Home is the context that owns what is made in a context.
	Home func(context uint64) uint64
}

// Textures makes textures and surfaces and copies arrays.
type Textures struct {
	Config
	made map[uint64]int          // textures and surfaces, by their contexts
	all  int                     // of them together
	kept map[uint64]*SavedObject // those that can be made again, by number
}

// New returns a Textures.
func New(c Config) *Textures {
	return &Textures{Config: c, made: map[uint64]int{}, kept: map[uint64]*SavedObject{}}
}

// Fixed is how many textures and surfaces there are that can't be made again.
func (t *Textures) Fixed() int { return t.all - len(t.kept) }

// Forget is told that a context is gone, with what was in it.
func (t *Textures) Forget(context uint64) {
	t.all -= t.made[context]
	delete(t.made, context)
	for number, x := range t.kept {
		if x.Context == context {
			delete(t.kept, number)
		}
	}
}

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
		gpubackend.OpTexObjectDestroy: call.Around(command.DecodeTexObjectDestroy,
			func(
				c *call.Call, a command.TexObjectDestroy, run func(*call.Call) gpubackend.Result,
			) gpubackend.Result {
				return t.destroy(c, a.TexObject, run)
			}),
		gpubackend.OpSurfObjectDestroy: call.Around(command.DecodeSurfObjectDestroy,
			func(
				c *call.Call, a command.SurfObjectDestroy, run func(*call.Call) gpubackend.Result,
			) gpubackend.Result {
				return t.destroy(c, a.SurfObject, run)
			}),
	}
}

// destroy takes a texture or surface out of the count.
func (t *Textures) destroy(
	c *call.Call, object uint64, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	result := run(c)
	if result != gpubackend.Success {
		return result
	}
	home := t.Home(c.Context)
	if x := t.kept[object]; x != nil {
		home = x.Context
		delete(t.kept, object)
	}
	if t.made[home] > 0 {
		t.made[home]--
		t.all--
	}
	return result
}

// count counts one more, if it was made, and keeps its description.
func (t *Textures) count(
	x *SavedObject, number uint64, result gpubackend.Result,
) gpubackend.Result {
	if result != gpubackend.Success {
		return result
	}
	t.made[x.Context]++
	t.all++
	if x.Number = number; t.Driver.SavesTextures() && len(t.kept) < maxKept {
		t.kept[number] = x
	}
	return result
}

// native returns a resource description with the driver's handle in the place of the guest's.
func (t *Textures) native(guests []byte) (b []byte, result gpubackend.Result) {
	// A mipmapped array's handle and the address of memory lie where an array's handle does.
	b = bytes.Clone(guests)
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

// begin begins a texture or surface of a resource, which it returns as the driver has it, too.
func (t *Textures) begin(
	c *call.Call, guests call.Reference,
) (x *SavedObject, resource []byte, result gpubackend.Result) {
	x = &SavedObject{Context: t.Home(c.Context)}
	if x.Resource, result = c.InputOf(guests); result != gpubackend.Success {
		return nil, nil, result
	}
	resource, result = t.native(x.Resource)
	return x, resource, result
}

// createTexture makes a texture.
func (t *Textures) createTexture(c *call.Call, a command.TexObjectCreate) gpubackend.Result {
	x, resource, result := t.begin(c, a.Resource)
	if result != gpubackend.Success {
		return result
	}
	if x.Sampling, result = c.InputOf(a.Texture); result != gpubackend.Success {
		return result
	}
	if !flagsKnown(x.Sampling) {
		return gpubackend.InvalidValue
	}
	if x.View, result = c.InputOf(a.View); result != gpubackend.Success {
		return result
	}
	made, result := t.Driver.TexObjectCreate(resource, x.Sampling, x.View)
	c.Put(command.TexObjectCreateAnswer{Texture: made})
	return t.count(x, made, result)
}

// flagsKnown says whether a sampling, if there is one, has no unknown flags.
func flagsKnown(sampling []byte) bool {
	return len(sampling) == 0 ||
		allowed.TextureFlags.Has(uint64(cudaabi.TextureDesc(sampling).Flags()))
}

// createSurface makes a surface.
func (t *Textures) createSurface(c *call.Call, a command.SurfObjectCreate) gpubackend.Result {
	x, resource, result := t.begin(c, a.Resource)
	if result != gpubackend.Success {
		return result
	}
	s, result := t.Driver.SurfObjectCreate(resource)
	c.Put(command.SurfObjectCreateAnswer{Surface: s})
	return t.count(x, s, result)
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

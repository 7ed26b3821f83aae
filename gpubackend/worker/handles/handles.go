// SPDX-License-Identifier: Apache-2.0

// Package handles turns the guest's handles of objects into the driver's own.
//
// The object table belongs to the worker's loop. A handle is the guest's word: one that is made up,
// stale or of another kind gives CUDA's error for that kind, and never gets to the driver.
package handles

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// Find returns the driver's handle of an object of that kind, or the error missing.
func Find[Native ~uint64](
	t *object.Table, k object.Kind, handle uint64, missing gpubackend.Result,
) (
	Native, gpubackend.Result,
) {
	native, ok := t.Lookup(k, handle)
	if !ok {
		return 0, missing
	}
	return Native(native), gpubackend.Success
}

// Context returns a context.
func Context(t *object.Table, handle uint64) (gpubackend.Context, gpubackend.Result) {
	return Find[gpubackend.Context](t, object.Context, handle, gpubackend.InvalidContext)
}

// GreenContext returns a green context.
func GreenContext(t *object.Table, handle uint64) (gpubackend.GreenContext, gpubackend.Result) {
	return Find[gpubackend.GreenContext](t, object.GreenContext, handle, gpubackend.InvalidContext)
}

// Event returns an event.
func Event(t *object.Table, handle uint64) (gpubackend.Event, gpubackend.Result) {
	return Find[gpubackend.Event](t, object.Event, handle, gpubackend.InvalidHandle)
}

// Module returns a module.
func Module(t *object.Table, handle uint64) (gpubackend.Module, gpubackend.Result) {
	return Find[gpubackend.Module](t, object.Module, handle, gpubackend.InvalidHandle)
}

// Library returns a library.
func Library(t *object.Table, handle uint64) (gpubackend.Library, gpubackend.Result) {
	return Find[gpubackend.Library](t, object.Library, handle, gpubackend.InvalidHandle)
}

// Kernel returns a kernel of a library.
func Kernel(t *object.Table, handle uint64) (gpubackend.Kernel, gpubackend.Result) {
	return Find[gpubackend.Kernel](t, object.Kernel, handle, gpubackend.InvalidHandle)
}

// Link returns a linker.
func Link(t *object.Table, handle uint64) (gpubackend.Link, gpubackend.Result) {
	return Find[gpubackend.Link](t, object.Link, handle, gpubackend.InvalidHandle)
}

// Array returns an array.
func Array(t *object.Table, handle uint64) (gpubackend.Array, gpubackend.Result) {
	return Find[gpubackend.Array](t, object.Array, handle, gpubackend.InvalidHandle)
}

// MipmappedArray returns a mipmapped array.
func MipmappedArray(t *object.Table, handle uint64) (gpubackend.MipmappedArray, gpubackend.Result) {
	return Find[gpubackend.MipmappedArray](t, object.MipmappedArray, handle,
		gpubackend.InvalidHandle)
}

// TextureReference returns a texture reference.
func TextureReference(
	t *object.Table, handle uint64,
) (gpubackend.TextureReference, gpubackend.Result) {
	return Find[gpubackend.TextureReference](t, object.TextureReference, handle,
		gpubackend.InvalidHandle)
}

// SurfaceReference returns a surface reference.
func SurfaceReference(
	t *object.Table, handle uint64,
) (gpubackend.SurfaceReference, gpubackend.Result) {
	return Find[gpubackend.SurfaceReference](t, object.SurfaceReference, handle,
		gpubackend.InvalidHandle)
}

// Graph returns a graph.
func Graph(t *object.Table, handle uint64) (gpubackend.Graph, gpubackend.Result) {
	return Find[gpubackend.Graph](t, object.Graph, handle, gpubackend.InvalidValue)
}

// GraphExec returns an executable graph.
func GraphExec(t *object.Table, handle uint64) (gpubackend.GraphExec, gpubackend.Result) {
	return Find[gpubackend.GraphExec](t, object.GraphExec, handle, gpubackend.InvalidValue)
}

// GraphNode returns a node of a graph.
func GraphNode(t *object.Table, handle uint64) (gpubackend.GraphNode, gpubackend.Result) {
	return Find[gpubackend.GraphNode](t, object.GraphNode, handle, gpubackend.InvalidValue)
}

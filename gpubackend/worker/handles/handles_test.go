// SPDX-License-Identifier: Apache-2.0

package handles

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// widened gives the functions of all kinds one type.
func widened[Native ~uint64](
	f func(*object.Table, uint64) (Native, gpubackend.Result),
) func(*object.Table, uint64) (
	uint64, gpubackend.Result,
) {
	return func(t *object.Table, h uint64) (uint64, gpubackend.Result) {
		native, result := f(t, h)
		return uint64(native), result
	}
}

// TestEachKindIsItsOwn: a handle of one kind is none of another.
func TestEachKindIsItsOwn(t *testing.T) {
	finds := map[object.Kind]func(*object.Table, uint64) (uint64, gpubackend.Result){
		object.Context: widened(Context), object.GreenContext: widened(GreenContext),
		object.Event: widened(Event), object.Module: widened(Module),
		object.Library: widened(Library),
		object.Kernel:  widened(Kernel), object.Link: widened(Link), object.Array: widened(Array),
		object.MipmappedArray:   widened(MipmappedArray),
		object.TextureReference: widened(TextureReference),
		object.SurfaceReference: widened(SurfaceReference), object.Graph: widened(Graph),
		object.GraphExec: widened(GraphExec), object.GraphNode: widened(GraphNode),
	}
	var table object.Table
	of := map[object.Kind]uint64{}
	for kind := range finds {
		of[kind] = table.Add(kind, 100+uint64(kind), 0)
	}
	for kind, find := range finds {
		for other, handle := range of {
			native, result := find(&table, handle)
			if kind == other && (native != 100+uint64(kind) || result != gpubackend.Success) {
				t.Errorf("kind %d: %d, %v", kind, native, result)
			}
			if kind != other && (native != 0 || result == gpubackend.Success) {
				t.Errorf("kind %d as %d: %d, %v", other, kind, native, result)
			}
		}
		for _, forged := range []uint64{0, 1, 2, 77, ^uint64(0)} {
			if native, result := find(&table, forged); native != 0 || result == gpubackend.Success {
				t.Errorf("kind %d, handle %#x: %d, %v", kind, forged, native, result)
			}
		}
	}
}

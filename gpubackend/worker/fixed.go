// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend/fixed"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// fixed counts what keeps the program where it is.
func (w *Worker) fixed() (c fixed.Counts) {
	for _, x := range [...]struct {
		kind   fixed.Kind
		object object.Kind
	}{
		{fixed.References, object.TextureReference}, {fixed.References, object.SurfaceReference},
		{fixed.GreenContexts, object.GreenContext}, {fixed.GreenContexts, object.Resource},
		{fixed.GreenContexts, object.ResourceDesc}, {fixed.Linkers, object.Link},
	} {
		c[x.kind] += uint64(w.objects.Count(x.object))
	}
	if n := w.driver.FixedGraphs(); n >= 0 {
		c[fixed.Graphs] = uint64(n)
	} else {
		c[fixed.Graphs] = uint64(w.objects.Count(object.Graph))
		c[fixed.GraphExecs] = uint64(w.objects.Count(object.GraphExec))
	}
	if !w.driver.Saves() {
		c[fixed.Arrays] = uint64(w.objects.Count(object.Array) +
			w.objects.Count(object.MipmappedArray))
	}
	memory, events := w.sharing.Shared()
	pools, segments := w.pools.Shared()
	exported, imported := w.memory.Shared()
	c[fixed.Textures] = uint64(w.textures.Fixed())
	c[fixed.VirtualMemory] = uint64(w.memory.Virtual())
	c[fixed.SharedMemory] = uint64(memory + segments + exported + imported)
	c[fixed.ShownMemory] = uint64(w.hostMemory.Shown())
	if w.history == nil || w.history.Refused() != nil {
		c[fixed.Commands] = 1
	}
	c[fixed.SharedPools], c[fixed.SharedEvents] = uint64(pools), uint64(events)
	return c
}

// tellFixed tells the device process. The loop calls it where it looks around, so that no command
// pays for it.
func (w *Worker) tellFixed() {
	c := w.fixed()
	w.state.SetFixed(&c)
}

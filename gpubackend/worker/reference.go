// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
)

func (w *Worker) findTextureReference(_ *call, handle uint64) (gpubackend.TextureReference, gpubackend.Result) {
	h, result := w.lookup(object.TextureReference, handle)
	return gpubackend.TextureReference(h), result
}

func (w *Worker) findSurfaceReference(_ *call, handle uint64) (gpubackend.SurfaceReference, gpubackend.Result) {
	h, result := w.lookup(object.SurfaceReference, handle)
	return gpubackend.SurfaceReference(h), result
}

// endReference keeps modules' references from being destroyed: they go with their modules.
func (w *Worker) endReference(c *call, run func(*Worker, *call) gpubackend.Result) gpubackend.Result {
	if _, ok := w.objects.Lookup(object.Module, w.objects.Parent(c.word(0))); ok {
		return gpubackend.InvalidValue
	}
	return run(w, c)
}

// answerBound answers with the guest's handle of what a reference is bound to. The driver may still name an array that
// was destroyed; the guest has no handle of it any more, and gets none.
func (w *Worker) answerBound(c *call, kind object.Kind, native uint64, result gpubackend.Result) gpubackend.Result {
	if result != gpubackend.Success {
		return result
	}
	handle := w.objects.Existing(kind, native)
	if handle == 0 {
		return gpubackend.InvalidValue
	}
	c.answer(handle)
	return gpubackend.Success
}

// runTexRefGetArray answers with an array: texture reference.
func runTexRefGetArray(w *Worker, c *call) gpubackend.Result {
	r, result := w.findTextureReference(c, c.word(0))
	if result != gpubackend.Success {
		return result
	}
	a, result := w.driver.TexRefGetArray(r)
	return w.answerBound(c, object.Array, uint64(a), result)
}

// runTexRefGetMipmappedArray answers with a mipmapped array: texture reference.
func runTexRefGetMipmappedArray(w *Worker, c *call) gpubackend.Result {
	r, result := w.findTextureReference(c, c.word(0))
	if result != gpubackend.Success {
		return result
	}
	m, result := w.driver.TexRefGetMipmappedArray(r)
	return w.answerBound(c, object.MipmappedArray, uint64(m), result)
}

// runSurfRefGetArray answers with an array: surface reference.
func runSurfRefGetArray(w *Worker, c *call) gpubackend.Result {
	r, result := w.findSurfaceReference(c, c.word(0))
	if result != gpubackend.Success {
		return result
	}
	a, result := w.driver.SurfRefGetArray(r)
	return w.answerBound(c, object.Array, uint64(a), result)
}

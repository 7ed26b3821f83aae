// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// endReference keeps modules' references from being destroyed: they go with their modules.
func (w *Worker) endReference(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	if _, ok := w.objects.Lookup(object.Module, w.objects.Parent(c.Word(0))); ok {
		return gpubackend.InvalidValue
	}
	return run(c)
}

// boundTo makes the handler that answers with the guest's handle of what a reference is bound to: reference. The driver may
// still name an array that was destroyed; the guest has no handle of it any more, and gets none.
func boundTo[Reference, Bound ~uint64](
	w *Worker, find func(*object.Table, uint64) (Reference, gpubackend.Result),
	get func(Reference) (Bound, gpubackend.Result), kind object.Kind,
) call.Handler {
	return call.Handler{Words: 1, Run: func(c *call.Call) gpubackend.Result {
		r, result := find(&w.objects, c.Word(0))
		if result != gpubackend.Success {
			return result
		}
		bound, result := get(r)
		if result != gpubackend.Success {
			return result
		}
		handle := w.objects.Existing(kind, uint64(bound))
		if handle == 0 {
			return gpubackend.InvalidValue
		}
		c.Answer(handle)
		return gpubackend.Success
	}}
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

func (w *Worker) lookup(kind object.Kind, handle uint64) (uint64, gpubackend.Result) {
	native, ok := w.objects.Lookup(kind, handle)
	if !ok {
		return 0, gpubackend.InvalidHandle
	}
	return native, gpubackend.Success
}

func (w *Worker) lookupContext(handle uint64) (gpubackend.Context, bool) {
	native, ok := w.objects.Lookup(object.Context, handle)
	return gpubackend.Context(native), ok
}

func (w *Worker) findContext(_ *call.Call, handle uint64) (gpubackend.Context, gpubackend.Result) {
	c, ok := w.lookupContext(handle)
	if !ok {
		return 0, gpubackend.InvalidContext
	}
	return c, gpubackend.Success
}

func (w *Worker) findEvent(_ *call.Call, handle uint64) (gpubackend.Event, gpubackend.Result) {
	h, result := w.lookup(object.Event, handle)
	return gpubackend.Event(h), result
}

func (w *Worker) findModule(_ *call.Call, handle uint64) (gpubackend.Module, gpubackend.Result) {
	h, result := w.lookup(object.Module, handle)
	return gpubackend.Module(h), result
}

func (w *Worker) findLibrary(_ *call.Call, handle uint64) (gpubackend.Library, gpubackend.Result) {
	h, result := w.lookup(object.Library, handle)
	return gpubackend.Library(h), result
}

func (w *Worker) findKernel(_ *call.Call, handle uint64) (gpubackend.Kernel, gpubackend.Result) {
	h, result := w.lookup(object.Kernel, handle)
	return gpubackend.Kernel(h), result
}

// kernelKey is a kernel in a context.
type kernelKey struct{ context, kernel uint64 }

// findFunction also finds kernels: CUDA takes a CUkernel wherever it takes a CUfunction.
func (w *Worker) findFunction(c *call.Call, handle uint64) (gpubackend.Function, gpubackend.Result) {
	if h, ok := w.objects.Lookup(object.Function, handle); ok {
		return gpubackend.Function(h), gpubackend.Success
	}
	kernel, result := w.lookup(object.Kernel, handle)
	if result != gpubackend.Success {
		return 0, result
	}
	key := kernelKey{c.Context, handle}
	if f, ok := w.kernels[key]; ok {
		return f, gpubackend.Success
	}
	f, result := w.driver.KernelGetFunction(gpubackend.Kernel(kernel))
	if result == gpubackend.Success {
		w.kernels[key] = f
	}
	return f, result
}

// endLibrary unloads a library and forgets its kernels.
func (w *Worker) endLibrary(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := run(c)
	if result == gpubackend.Success {
		w.forgetKernels(0)
	}
	return result
}

// forgetKernels drops the functions of kernels in a context, and those whose kernel or context has no handle any more.
func (w *Worker) forgetKernels(context uint64) {
	for key := range w.kernels {
		_, there := w.objects.Lookup(object.Kernel, key.kernel)
		if _, in := w.lookupContext(key.context); !there || !in || key.context == context {
			delete(w.kernels, key)
		}
	}
}

// Streams that have no handle, as the guest names them.
const (
	streamDefault   = 0
	streamLegacy    = 1
	streamPerThread = 2
)

// findStream finds a stream; CU_STREAM_PER_THREAD is one of the calling thread's own.
func (w *Worker) findStream(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result) {
	switch handle {
	case streamDefault, streamLegacy:
		return gpubackend.LegacyStream, gpubackend.Success
	case streamPerThread:
		return w.streams.get(w, c.Context, c.Slot)
	}
	h, result := w.lookup(object.Stream, handle)
	return gpubackend.Stream(h), result
}

// threadStreams holds the per-thread default streams.
type threadStreams struct {
	streams map[threadStream]gpubackend.Stream
}

type threadStream struct {
	context uint64
	slot    uint16
}

// get returns a thread's default stream in a context. It is an ordinary blocking stream (CUDA driver API, "Stream
// synchronization behavior": it synchronises with the legacy stream as those do).
func (t *threadStreams) get(w *Worker, context uint64, slot uint16) (gpubackend.Stream, gpubackend.Result) {
	key := threadStream{context, slot}
	if s, ok := t.streams[key]; ok {
		return s, gpubackend.Success
	}
	s, result := w.driver.StreamCreateWithPriority(0, 0)
	if result != gpubackend.Success {
		return 0, result
	}
	if t.streams == nil {
		t.streams = map[threadStream]gpubackend.Stream{}
	}
	t.streams[key] = s
	return s, gpubackend.Success
}

// end destroys the streams of a thread that has ended.
func (t *threadStreams) end(w *Worker, slot uint16) {
	for key, s := range t.streams {
		if key.slot != slot {
			continue
		}
		delete(t.streams, key)
		if w.setContext(key.context, true) == gpubackend.Success {
			w.driver.StreamDestroy(s)
		}
	}
}

// endContext destroys the streams in a context.
func (t *threadStreams) endContext(w *Worker, context uint64) {
	for key, s := range t.streams {
		if key.context != context {
			continue
		}
		delete(t.streams, key)
		if w.setContext(context, true) == gpubackend.Success {
			w.driver.StreamDestroy(s)
		}
	}
}

// forget drops the streams of a context that is gone.
func (t *threadStreams) forget(context uint64) {
	for key := range t.streams {
		if key.context == context {
			delete(t.streams, key)
		}
	}
}

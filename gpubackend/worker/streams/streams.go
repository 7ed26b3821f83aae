// SPDX-License-Identifier: Apache-2.0

// Package streams finds the streams that the guest names. CU_STREAM_PER_THREAD is a different
// stream for each thread of the guest in each context, made at first use.
//
// The worker's loop owns a Streams, which owns the threads' default streams; the guest's own are in
// the object table. Handles come from the guest: what isn't a stream never gets to the driver.
package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// Streams that have no handle, as the guest names them.
const (
	Default   = 0
	Legacy    = 1
	PerThread = 2
)

// Driver is what Streams uses of gpubackend.Driver.
type Driver interface {
	StreamCreateWithPriority(flags, priority uint64) (gpubackend.Stream, gpubackend.Result)
	StreamDestroy(s gpubackend.Stream) gpubackend.Result
}

// Contexts makes the context of a stream current.
type Contexts interface {
	Set(handle uint64, optional bool) gpubackend.Result
}

// Streams has the per-thread default streams.
type Streams struct {
	driver   Driver
	contexts Contexts
	objects  *object.Table
	threads  map[threadStream]gpubackend.Stream
}

type threadStream struct {
	context uint64
	slot    uint16
}

// New returns a Streams without per-thread streams.
func New(d Driver, c Contexts, objects *object.Table) *Streams {
	return &Streams{driver: d, contexts: c, objects: objects,
		threads: map[threadStream]gpubackend.Stream{}}
}

// Find finds a stream; CU_STREAM_PER_THREAD is one of the calling thread's own.
func (t *Streams) Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result) {
	switch handle {
	case Default, Legacy:
		return gpubackend.LegacyStream, gpubackend.Success
	case PerThread:
		return t.ofThread(threadStream{c.Context, c.Slot})
	}
	return handles.Find[gpubackend.Stream](t.objects, object.Stream, handle,
		gpubackend.InvalidHandle)
}

// Known finds a stream without making one; if there is none it returns LegacyStream.
func (t *Streams) Known(c *call.Call, handle uint64) gpubackend.Stream {
	var s gpubackend.Stream
	ok := false
	switch handle {
	case Default, Legacy:
	case PerThread:
		s, ok = t.threads[threadStream{c.Context, c.Slot}]
	default:
		var result gpubackend.Result
		s, result = handles.Find[gpubackend.Stream](
			t.objects, object.Stream, handle, gpubackend.InvalidHandle)
		ok = result == gpubackend.Success
	}
	if !ok {
		return gpubackend.LegacyStream
	}
	return s
}

// ofThread returns a thread's default stream in a context. It is an ordinary blocking stream (CUDA
// driver API, "Stream synchronization behavior": it synchronises with the legacy stream as those
// do).
func (t *Streams) ofThread(key threadStream) (gpubackend.Stream, gpubackend.Result) {
	if s, ok := t.threads[key]; ok {
		return s, gpubackend.Success
	}
	s, result := t.driver.StreamCreateWithPriority(0, 0)
	if result != gpubackend.Success {
		return 0, result
	}
	t.threads[key] = s
	return s, gpubackend.Success
}

// EndThread destroys the streams of a thread that has ended.
func (t *Streams) EndThread(slot uint16) {
	t.destroy(func(key threadStream) bool { return key.slot == slot })
}

// EndContext destroys the streams in a context.
func (t *Streams) EndContext(context uint64) {
	t.destroy(func(key threadStream) bool { return key.context == context })
}

func (t *Streams) destroy(which func(threadStream) bool) {
	for key, s := range t.threads {
		if !which(key) {
			continue
		}
		delete(t.threads, key)
		if t.contexts.Set(key.context, true) == gpubackend.Success {
			t.driver.StreamDestroy(s)
		}
	}
}

// Forget drops the streams of a context that is gone.
func (t *Streams) Forget(context uint64) {
	for key := range t.threads {
		if key.context == context {
			delete(t.threads, key)
		}
	}
}

// Threads is how many per-thread streams there are.
func (t *Streams) Threads() int { return len(t.threads) }

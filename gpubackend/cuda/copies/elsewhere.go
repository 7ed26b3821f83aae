// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Copies between host memory and a GPU that isn't the current context's. The driver does these for
// memory of cuMemAlloc; for memory in the window it refuses them, unless the GPU was given access.
// So the GPU that has the memory does them.

// Streams makes streams and events in the current context.
type Streams interface {
	StreamCreateWithPriority(flags, priority uint64) (gpubackend.Stream, gpubackend.Result)
	StreamSynchronize(s gpubackend.Stream) gpubackend.Result
	StreamWaitEvent(s gpubackend.Stream, e gpubackend.Event, flags uint64) gpubackend.Result
	EventCreate(flags uint64) (gpubackend.Event, gpubackend.Result)
	EventRecordWithFlags(e gpubackend.Event, s gpubackend.Stream, flags uint64) gpubackend.Result
	EventDestroy(e gpubackend.Event) gpubackend.Result
}

// owner is a context of the GPU that has the memory at one of two addresses, if that isn't the
// current context's GPU; nil if the current one can copy. A GPU without a context has no memory.
func (x *Copies) owner(a, b uint64) *contexts.Context {
	here := x.contexts.Current()
	if here == nil {
		return nil
	}
	for _, addr := range [2]uint64{a, b} {
		if gpu, is := x.ranges.Owner(addr); is && gpu != here.GPU {
			return x.contexts.On(gpu)
		}
	}
	return nil
}

// ownStream is the current context's stream for copies that aren't in a stream of the guest's.
func (x *Copies) ownStream(c *contexts.Context) (gpubackend.Stream, gpubackend.Result) {
	if s, known := x.streams[c]; known {
		return s, gpubackend.Success
	}
	s, r := x.queues.StreamCreateWithPriority(cudaabi.StreamNonBlocking, 0)
	if r == gpubackend.Success {
		x.streams[c] = s
	}
	return s, r
}

// elsewhere makes another GPU queue something in a stream of its own: after all that is in s, and
// before all that is put there later.
func (x *Copies) elsewhere(
	there *contexts.Context, s gpubackend.Stream, queue func(gpubackend.Stream) gpubackend.Result,
) gpubackend.Result {
	var after gpubackend.Event
	queued := func(before gpubackend.Event) gpubackend.Result {
		own, r := x.ownStream(there)
		if r == gpubackend.Success {
			r = x.queues.StreamWaitEvent(own, before, 0)
		}
		if r == gpubackend.Success {
			r = queue(own)
		}
		if r == gpubackend.Success {
			after, r = x.mark(own)
		}
		return r
	}
	return x.between(s, func(before gpubackend.Event) (gpubackend.Event, gpubackend.Result) {
		r := x.contexts.In(there, func() gpubackend.Result { return queued(before) })
		return after, r
	})
}

// between calls do with an event that passes when s gets here, and makes s wait for the event that
// do returns.
func (x *Copies) between(
	s gpubackend.Stream, do func(before gpubackend.Event) (gpubackend.Event, gpubackend.Result),
) gpubackend.Result {
	before, r := x.mark(s)
	if r != gpubackend.Success {
		return r
	}
	after, r := do(before)
	if r == gpubackend.Success {
		r = x.queues.StreamWaitEvent(s, after, 0)
		x.queues.EventDestroy(after)
	}
	x.queues.EventDestroy(before) // the driver keeps it as long as a stream waits for it
	return r
}

// mark records a new event of the current context in a stream.
func (x *Copies) mark(s gpubackend.Stream) (gpubackend.Event, gpubackend.Result) {
	e, r := x.queues.EventCreate(cudaabi.EventDisableTiming)
	if r != gpubackend.Success {
		return 0, r
	}
	if r = x.queues.EventRecordWithFlags(e, s, 0); r != gpubackend.Success {
		x.queues.EventDestroy(e)
	}
	return e, r
}

// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfuncs"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	CtxSynchronize() gpubackend.Result
	StreamCreateWithPriority(flags, priority uint64) (gpubackend.Stream, gpubackend.Result)
	StreamDestroy(s gpubackend.Stream) gpubackend.Result
	StreamQuery(s gpubackend.Stream) gpubackend.Result
	StreamSynchronize(s gpubackend.Stream) gpubackend.Result
	StreamWaitEvent(s gpubackend.Stream, e gpubackend.Event, flags uint64) gpubackend.Result
	StreamBatchMemOp(s gpubackend.Stream, ops []byte, flags uint64) gpubackend.Result

	CanAnnounce() bool
	StreamWriteValue32(s gpubackend.Stream, addr uint64, value uint32) gpubackend.Result

	EventCreate(flags uint64) (gpubackend.Event, gpubackend.Result)
	EventDestroy(e gpubackend.Event) gpubackend.Result
	EventQuery(e gpubackend.Event) gpubackend.Result
	EventRecordWithFlags(e gpubackend.Event, s gpubackend.Stream, flags uint64) gpubackend.Result
	EventSynchronize(e gpubackend.Event) gpubackend.Result
	EventElapsed(from, to gpubackend.Event) (uint64, gpubackend.Result)

	StreamIsCapturing(s gpubackend.Stream) (status uint64, r gpubackend.Result)
	StreamBeginCaptureRelaxed(s gpubackend.Stream) gpubackend.Result
	StreamBeginCaptureToGraphRelaxed(
		s gpubackend.Stream, g gpubackend.Graph, nodes []gpubackend.GraphNode, edges []byte,
	) gpubackend.Result
	StreamEndCapture(s gpubackend.Stream) (gpubackend.Graph, gpubackend.Result)

	LaunchHostFunc() driver.Function
	Touch(s gpubackend.Stream)
}

// Prints says whether somebody must synchronize to get what kernels print.
type Prints interface{ Working() bool }

// Streams is the streams of one guest process.
type Streams struct {
	calls    Calls
	contexts *contexts.Contexts
	prints   Prints
	settled  func()
	log      *logrus.Entry
	host     *hostfuncs.Calls // nil before the first host function
	keeps    bool             // there was one of a graph

	owners    map[gpubackend.Stream]*contexts.Context // of streams that the guest made
	capturing map[gpubackend.Stream]struct{}          // that were told to capture
	past      map[*contexts.Context]*past             // nil: no event is another process's
}

// New returns the streams of a process, which has made none yet. settled is called when the current
// context is seen to have no work in flight.
func New(
	calls Calls, x *contexts.Contexts, prints Prints, settled func(), log *logrus.Entry,
) *Streams {
	return &Streams{
		calls: calls, contexts: x, prints: prints, settled: settled, log: log,
		owners:    make(map[gpubackend.Stream]*contexts.Context),
		capturing: make(map[gpubackend.Stream]struct{}),
	}
}

// Known is how many streams of the guest's there are.
func (x *Streams) Known() int { return len(x.owners) }

// ContextQuery asks every stream that was given work.
func (x *Streams) ContextQuery() gpubackend.Result {
	if !x.contexts.Usable() {
		return gpubackend.InvalidContext
	}
	if dead := x.contexts.Current().Dead(); dead != gpubackend.Success {
		return dead
	}
	r := x.Query()
	if r == gpubackend.Success {
		x.settled()
		if x.prints.Working() && !x.Capturing() {
			x.calls.CtxSynchronize()
		}
	}
	return r
}

// Query asks the current context's busy streams, and those of the green contexts that are part of
// it.
func (x *Streams) Query() gpubackend.Result {
	if r := x.queryOwn(); r != gpubackend.Success || !x.greenBusy() {
		return r
	}
	return x.queryGreen()
}

// queryOwn asks the current context's busy streams, starting with the latest, until one is not
// ready.
func (x *Streams) queryOwn() gpubackend.Result {
	work := &x.contexts.Current().Work
	for s, ok := work.Latest(); ok; s, ok = work.Latest() {
		captured, r := x.isCapturing(s)
		if r != gpubackend.Success {
			return r // of the legacy stream: asked again when the capture is over
		}
		if captured { // it runs nothing, and asking would end the capture
			work.Done(s)
			continue
		}
		if r := x.calls.StreamQuery(s); r != gpubackend.Success {
			return x.contexts.Failed(r)
		}
		work.Done(s)
	}
	for e, ok := work.LatestMark(); ok; e, ok = work.LatestMark() {
		if r := x.calls.EventQuery(e); r != gpubackend.Success {
			return x.contexts.Failed(r)
		}
		x.calls.EventDestroy(e)
		work.DropMark()
	}
	return gpubackend.Success
}

// greenBusy says whether a green context of the current one may have work in flight.
func (x *Streams) greenBusy() bool {
	for c := range x.contexts.Green(x.contexts.Current()) {
		if c.Work.Busy() {
			return true
		}
	}
	return false
}

// queryGreen asks the streams of the green contexts that are part of the current one.
func (x *Streams) queryGreen() (r gpubackend.Result) {
	here := x.contexts.Current()
	for c := range x.contexts.Green(here) {
		if !c.Work.Busy() {
			continue
		}
		if r = x.contexts.SetCurrent(c.Handle); r == gpubackend.Success {
			r = x.queryOwn()
		}
		if r != gpubackend.Success {
			break
		}
	}
	if back := x.contexts.SetCurrent(here.Handle); r == gpubackend.Success {
		r = back
	}
	return r
}

// StreamQuery makes the driver write what the stream's kernels printed when it is idle, as
// cuStreamSynchronize does.
func (x *Streams) StreamQuery(s gpubackend.Stream) gpubackend.Result {
	r := x.calls.StreamQuery(s)
	c := x.contexts.Current()
	if r == gpubackend.NotReady && c != nil && c.Work.IsQuiet(s) {
		return gpubackend.Success
	}
	if r != gpubackend.Success {
		return x.contexts.Failed(r)
	}
	if c == nil || !c.Work.Done(s) || !x.prints.Working() {
		return r
	}
	// Synchronizing the default stream may wait for others: what its kernels printed is written
	// when they are idle, too.
	if s > gpubackend.LegacyStream || !c.Work.Busy() {
		x.calls.StreamSynchronize(s)
	}
	return r
}

// StreamCreateWithPriority makes a stream of the current context.
func (x *Streams) StreamCreateWithPriority(
	flags, priority uint64,
) (gpubackend.Stream, gpubackend.Result) {
	s, r := x.calls.StreamCreateWithPriority(flags, priority)
	if r == gpubackend.Success {
		x.Add(s, x.contexts.Current())
	}
	return s, r
}

// Add enters a stream of a context.
func (x *Streams) Add(s gpubackend.Stream, c *contexts.Context) { x.owners[s] = c }

// Ended forgets the streams of a context that has ended, and with it their work. It may have been
// given to them while other contexts were current.
func (x *Streams) Ended(of *contexts.Context) {
	for s, c := range x.owners {
		if c == of {
			x.forget(s)
		}
	}
}

func (x *Streams) forget(s gpubackend.Stream) {
	for c := range x.contexts.All() {
		c.Work.Gone(s)
	}
	delete(x.capturing, s)
	delete(x.owners, s)
}

// StreamDestroy returns at once, even if work is in flight: an event stands for that work from then
// on. The stream may be of another context than the current one, and may have joined a capture.
func (x *Streams) StreamDestroy(s gpubackend.Stream) gpubackend.Result {
	if activity.Unified(s) == gpubackend.DefaultStream {
		return gpubackend.InvalidHandle
	}
	for c := range x.contexts.All() {
		x.watchLast(c, s)
	}
	x.forget(s)
	return x.calls.StreamDestroy(s)
}

// StreamWaitEvent may make the stream join a capture.
func (x *Streams) StreamWaitEvent(
	s gpubackend.Stream, e gpubackend.Event, flags uint64,
) gpubackend.Result {
	if x.Capturing() {
		x.beforeCapture(s)
	}
	return x.calls.StreamWaitEvent(s, e, flags)
}

// StreamMemOps queues operations on memory, in order.
func (x *Streams) StreamMemOps(s gpubackend.Stream, ops []byte, flags uint64) gpubackend.Result {
	return x.contexts.Failed(x.calls.StreamBatchMemOp(s, ops, flags))
}

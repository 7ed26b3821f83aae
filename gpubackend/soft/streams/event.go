// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/sharedevent"
)

// ExternalFlag, of cuEventRecordWithFlags and cuStreamWaitEvent, makes nodes of the graph that is
// being captured.
const ExternalFlag = cudaabi.EventRecordExternal | cudaabi.EventWaitExternal

// event is a CUevent. Its record is the task that stands for it in a stream, nil before the first.
// If it was last recorded in a capture it stands for nodes instead.
type event struct {
	ctx    *contexts.Context
	timed  bool
	record *scheduler.Task
	shared *sharedevent.Event // of an interprocess event
	own    uint64             // number of the latest record of this process, of such an event

	capture *capture
	nodes   []*graphs.Node
}

// Owner implements contexts.Owned.
func (e *event) Owner() *contexts.Context { return e.ctx }

func (x *Streams) event(h gpubackend.Event) (*event, gpubackend.Result) {
	e, ok := handles.Find[*event](x.options.Handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return e, e.ctx.State()
}

// EventCreate implements gpubackend.Driver.
func (x *Streams) EventCreate(flags uint64) (gpubackend.Event, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	if flags&^(cudaabi.EventBlockingSync|cudaabi.EventDisableTiming|
		cudaabi.EventInterprocess) != 0 {
		return 0, gpubackend.InvalidValue
	}
	if flags&cudaabi.EventInterprocess != 0 {
		if flags&cudaabi.EventDisableTiming == 0 {
			return 0, gpubackend.InvalidValue
		}
	}
	e := &event{ctx: c, timed: flags&cudaabi.EventDisableTiming == 0}
	if flags&cudaabi.EventInterprocess != 0 {
		var err error
		if e.shared, err = sharedevent.New(); err != nil {
			return 0, gpubackend.OutOfMemory
		}
	}
	return gpubackend.Event(x.options.Handles.Add(e)), gpubackend.Success
}

// EventDestroy implements gpubackend.Driver. A record may be under way.
func (x *Streams) EventDestroy(h gpubackend.Event) gpubackend.Result {
	_, result := x.event(h)
	if result == gpubackend.Success {
		x.options.Handles.Remove(uint64(h))
	}
	return result
}

// EventRecordWithFlags implements gpubackend.Driver.
func (x *Streams) EventRecordWithFlags(
	h gpubackend.Event, sh gpubackend.Stream, flags uint64,
) gpubackend.Result {
	e, result := x.event(h)
	if result != gpubackend.Success {
		return result
	}
	s, result := x.Target(sh)
	if result != gpubackend.Success {
		return result
	}
	if flags&^ExternalFlag != 0 {
		return gpubackend.InvalidValue
	}
	if s.ctx != e.ctx {
		return gpubackend.InvalidHandle
	}
	if s.capture != nil {
		return x.recordCaptured(s, h, flags)
	}
	if flags != 0 {
		return gpubackend.IllegalState // outside of captures
	}
	e.capture, e.nodes = nil, nil
	x.Enqueue(s, e.newRecord())
	return gpubackend.Success
}

// newRecord makes the task that stands for the event from now on.
func (e *event) newRecord() *scheduler.Task {
	e.record = &scheduler.Task{}
	if shared := e.shared; shared != nil {
		number := shared.Record()
		e.own = number
		e.record.Then = func() { shared.Finish(number) }
	}
	return e.record
}

// newWait makes a task that waits for the event, and says what else comes first. It returns nil if
// nothing is to be waited for.
func (e *event) newWait() (t *scheduler.Task, after *scheduler.Task) {
	if e.shared == nil {
		if e.record == nil {
			return nil, nil
		}
		return &scheduler.Task{}, e.record
	}
	number, done := e.shared.Latest()
	if done {
		return nil, nil
	}
	shared, given := e.shared, e.ctx.Alive().Done()
	return &scheduler.Task{Class: scheduler.Outside, Run: func() { shared.Wait(number, given) }},
		nil
}

// RecordNode makes a task of a graph stand for an event.
func (x *Streams) RecordNode(h gpubackend.Event, t *scheduler.Task) {
	if e, result := x.event(h); result == gpubackend.Success {
		e.record, e.capture, e.nodes = t, nil, nil
	}
}

// Recorded is the task that stands for an event, nil for none.
func (x *Streams) Recorded(h gpubackend.Event) *scheduler.Task {
	if e, result := x.event(h); result == gpubackend.Success {
		return e.record
	}
	return nil
}

// CheckEvent refuses events that nodes of graphs can't record or wait for.
func (x *Streams) CheckEvent(h gpubackend.Event) gpubackend.Result {
	e, result := x.event(h)
	if result == gpubackend.Success && e.shared != nil {
		result = gpubackend.NotSupported // a graph's tasks know those of this process only
	}
	return result
}

// PrepareEvent prepares a node that records an event or waits for one: a mark in the graph.
func (x *Streams) PrepareEvent(
	n *gpubackend.Node, c *contexts.Context,
) (func() *scheduler.Task, gpubackend.Result) {
	_, result := x.event(n.Event)
	return func() *scheduler.Task { return &scheduler.Task{Domain: c.Domain} }, result
}

// OpenShared makes an event of this process from another one's.
func (x *Streams) OpenShared(c *contexts.Context, shared *sharedevent.Event) gpubackend.Event {
	return gpubackend.Event(x.options.Handles.Add(&event{ctx: c, shared: shared}))
}

// Shareable finds an interprocess event.
func (x *Streams) Shareable(h gpubackend.Event) (*sharedevent.Event, gpubackend.Result) {
	e, result := x.event(h)
	if result == gpubackend.Success && e.shared == nil {
		return nil, gpubackend.InvalidHandle
	}
	if result != gpubackend.Success {
		return nil, result
	}
	return e.shared, gpubackend.Success
}

// FinishShared marks events as done that other processes wait for: nothing queued here is done any
// more.
func (x *Streams) FinishShared() {
	for _, object := range x.options.Handles.All() {
		if e, ok := object.(*event); ok && e.shared != nil {
			e.shared.Finish(e.own)
		}
	}
}

// isDone says whether the latest record is done.
func (e *event) isDone(s *scheduler.Scheduler) bool {
	if e.shared != nil {
		_, done := e.shared.Latest()
		return done
	}
	return s.IsDone(e.record)
}

// StreamWaitEvent implements gpubackend.Driver. What counts is the latest record so far.
func (x *Streams) StreamWaitEvent(
	sh gpubackend.Stream, h gpubackend.Event, flags uint64,
) gpubackend.Result {
	s, result := x.Target(sh)
	if result != gpubackend.Success {
		return result
	}
	if flags&^ExternalFlag != 0 {
		return gpubackend.InvalidValue
	}
	e, result := x.event(h)
	if result != gpubackend.Success {
		s.Spoil()
		return result
	}
	if s.capture != nil || e.capture != nil {
		return x.waitCaptured(s, h, flags)
	}
	if flags != 0 {
		return gpubackend.IllegalState
	}
	if t, after := e.newWait(); t != nil {
		x.Enqueue(s, t, after)
	}
	return gpubackend.Success
}

// EventQuery implements gpubackend.Driver.
func (x *Streams) EventQuery(h gpubackend.Event) gpubackend.Result {
	e, result := x.event(h)
	if result != gpubackend.Success {
		return result
	}
	if result := e.refuse(); result != gpubackend.Success {
		return result
	}
	if !e.isDone(x.options.Scheduler) {
		return gpubackend.NotReady
	}
	return e.ctx.State()
}

// EventElapsed implements gpubackend.Driver. The time is negative, in two's complement, when the
// end came first.
func (x *Streams) EventElapsed(start, end gpubackend.Event) (uint64, gpubackend.Result) {
	from, result := x.event(start)
	if result != gpubackend.Success {
		return 0, result
	}
	to, result := x.event(end)
	if result != gpubackend.Success {
		return 0, result
	}
	for _, e := range []*event{from, to} {
		if result := e.refuse(); result != gpubackend.Success {
			return 0, result
		}
	}
	if !from.timed || !to.timed || from.record == nil || to.record == nil || from.ctx != to.ctx {
		return 0, gpubackend.InvalidHandle
	}
	elapsed, done := x.options.Scheduler.Elapsed(from.record, to.record)
	if !done {
		return 0, gpubackend.NotReady
	}
	return uint64(elapsed), gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// externalFlag of cuEventRecordWithFlags and cuStreamWaitEvent makes nodes of the graph that is
// being captured.
const externalFlag = cudaabi.EventRecordExternal | cudaabi.EventWaitExternal

// event is a CUevent. Its record is the task that stands for it in a stream, nil before the first.
// What it recorded last may instead be a point of a capture: nodes.
type event struct {
	ctx    *contexts.Context
	timed  bool
	record *scheduler.Task
	shared *sharedEvent // of an interprocess event
	own    uint64       // number of the latest record of this process, of such an event

	capture *capture
	nodes   []*node
}

func (e *event) Owner() *contexts.Context { return e.ctx }

func (d *Device) event(h gpubackend.Event) (*event, gpubackend.Result) {
	e, ok := handles.Find[*event](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return e, e.ctx.State()
}

// EventCreate implements gpubackend.Driver.
func (d *Device) EventCreate(flags uint64) (gpubackend.Event, gpubackend.Result) {
	c, result := d.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	if flags&^(cudaabi.EventBlockingSync|cudaabi.EventDisableTiming|cudaabi.EventInterprocess) != 0 {
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
		if e.shared, err = newSharedEvent(); err != nil {
			return 0, gpubackend.OutOfMemory
		}
	}
	return gpubackend.Event(d.handles.Add(e)), gpubackend.Success
}

// EventDestroy implements gpubackend.Driver. A record that is under way does no harm.
func (d *Device) EventDestroy(h gpubackend.Event) gpubackend.Result {
	_, result := d.event(h)
	if result == gpubackend.Success {
		d.handles.Remove(uint64(h))
	}
	return result
}

// EventRecordWithFlags implements gpubackend.Driver.
func (d *Device) EventRecordWithFlags(h gpubackend.Event, sh gpubackend.Stream, flags uint64) gpubackend.Result {
	e, result := d.event(h)
	if result != gpubackend.Success {
		return result
	}
	s, result := d.target(sh)
	if result != gpubackend.Success {
		return result
	}
	if flags&^externalFlag != 0 {
		return gpubackend.InvalidValue
	}
	if s.ctx != e.ctx {
		return gpubackend.InvalidHandle
	}
	if s.capture != nil {
		return d.recordCaptured(s, h, flags)
	}
	if flags != 0 {
		return gpubackend.InvalidValue // outside of captures
	}
	e.capture, e.nodes = nil, nil
	d.enqueue(s, e.newRecord())
	return gpubackend.Success
}

// newRecord makes the task that stands for the event from now on.
func (e *event) newRecord() *scheduler.Task {
	e.record = &scheduler.Task{}
	if shared := e.shared; shared != nil {
		number := shared.record()
		e.own = number
		e.record.Then = func() { shared.finish(number) }
	}
	return e.record
}

// newWait makes a task that waits for the event, and says what else comes first. It returns nil if
// there is no need.
func (e *event) newWait() (t *scheduler.Task, after *scheduler.Task) {
	if e.shared == nil {
		if e.record == nil {
			return nil, nil
		}
		return &scheduler.Task{}, e.record
	}
	number, done := e.shared.latest()
	if done {
		return nil, nil
	}
	shared, given := e.shared, e.ctx.Alive().Done()
	return &scheduler.Task{Class: scheduler.Outside, Run: func() { shared.wait(number, given) }}, nil
}

// isDone says whether the latest record is.
func (e *event) isDone(s *scheduler.Scheduler) bool {
	if e.shared != nil {
		_, done := e.shared.latest()
		return done
	}
	return s.IsDone(e.record)
}

// StreamWaitEvent implements gpubackend.Driver. What counts is the latest record so far.
func (d *Device) StreamWaitEvent(sh gpubackend.Stream, h gpubackend.Event, flags uint64) gpubackend.Result {
	s, result := d.target(sh)
	if result != gpubackend.Success {
		return result
	}
	if flags&^externalFlag != 0 {
		return gpubackend.InvalidValue
	}
	e, result := d.event(h)
	if result != gpubackend.Success {
		s.spoil()
		return result
	}
	if s.capture != nil || e.capture != nil {
		return d.waitCaptured(s, h, flags)
	}
	if flags != 0 {
		return gpubackend.InvalidValue
	}
	if t, after := e.newWait(); t != nil {
		d.enqueue(s, t, after)
	}
	return gpubackend.Success
}

// EventQuery implements gpubackend.Driver.
func (d *Device) EventQuery(h gpubackend.Event) gpubackend.Result {
	e, result := d.event(h)
	if result != gpubackend.Success {
		return result
	}
	if result := e.refuse(); result != gpubackend.Success {
		return result
	}
	if !e.isDone(d.scheduler) {
		return gpubackend.NotReady
	}
	return e.ctx.State()
}

// EventElapsed implements gpubackend.Driver. The time is negative, in two's complement, when the
// end came first.
func (d *Device) EventElapsed(start, end gpubackend.Event) (uint64, gpubackend.Result) {
	from, result := d.event(start)
	if result != gpubackend.Success {
		return 0, result
	}
	to, result := d.event(end)
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
	elapsed, done := d.scheduler.Elapsed(from.record, to.record)
	if !done {
		return 0, gpubackend.NotReady
	}
	return uint64(elapsed), gpubackend.Success
}

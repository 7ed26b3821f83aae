// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// Priorities of streams. They are accepted; streams run side by side here.
const (
	leastPriority    = 0
	greatestPriority = -5
)

const streamNonBlocking = 1

// stream is a CUstream: a chain of tasks.
type stream struct {
	ctx       *gpuContext
	green     *greenContext // that it is in, nil for none
	handle    uint64
	blocking  bool // waits for the legacy default stream, which waits for it
	destroyed bool
	last      *scheduler.Task // the latest, nil for none

	capture *capture // what it is recorded into, nil if it isn't
	tail    []*node  // what the next node of the capture comes after

	attributes streamAttributes
}

func (s *stream) owner() *gpuContext { return s.ctx }

// lasts returns the tasks after which the context's work queued so far is done.
func (c *gpuContext) lasts() []*scheduler.Task {
	tasks := make([]*scheduler.Task, 1, len(c.streams)+1)
	tasks[0] = c.legacy.last
	for _, s := range c.streams {
		tasks = append(tasks, s.last)
	}
	return tasks
}

// stream returns the stream of a handle if its context is usable.
func (d *Device) stream(h gpubackend.Stream) (*stream, gpubackend.Result) {
	c, result := d.context()
	if result != gpubackend.Success {
		return nil, result
	}
	if h == gpubackend.DefaultStream || h == gpubackend.LegacyStream {
		if d.green != nil {
			return d.green.legacy, gpubackend.Success
		}
		return c.legacy, gpubackend.Success
	}
	s, ok := handles.Find[*stream](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return s, d.state(s.ctx)
}

// target is stream for a call that is about to queue work: it makes sure that there is room.
func (d *Device) target(h gpubackend.Stream) (*stream, gpubackend.Result) {
	s, result := d.stream(h)
	if result == gpubackend.Success {
		result = d.admit(s)
	}
	if result == gpubackend.Success && !d.scheduler.Throttle() {
		return nil, gpubackend.OutOfMemory
	}
	return s, result
}

// legacy returns the default stream of the context or green context that s is in.
func (s *stream) legacy() *stream {
	if s.green != nil {
		return s.green.legacy
	}
	return s.ctx.legacy
}

func (s *stream) isLegacy() bool { return s == s.legacy() }

// dependencies returns what the next task of s must wait for.
func (d *Device) dependencies(s *stream) []*scheduler.Task {
	c := s.ctx
	if !s.isLegacy() {
		if s.blocking {
			return []*scheduler.Task{s.last, s.legacy().last}
		}
		return []*scheduler.Task{s.last}
	}
	d.forget(c)
	tasks := make([]*scheduler.Task, 1, len(c.streams)+1)
	tasks[0] = s.last
	for _, other := range c.streams {
		if other.blocking && other.green == s.green {
			tasks = append(tasks, other.last)
		}
	}
	return tasks
}

// forget drops the context's destroyed streams that are idle.
func (d *Device) forget(c *gpuContext) {
	kept := c.streams[:0]
	for _, s := range c.streams {
		if !s.destroyed || !d.scheduler.IsDone(s.last) {
			kept = append(kept, s)
		}
	}
	clear(c.streams[len(kept):])
	c.streams = kept
}

// enqueue adds a task to a stream, after others that it must wait for too.
func (d *Device) enqueue(s *stream, t *scheduler.Task, after ...*scheduler.Task) {
	t.Domain = s.ctx.Domain
	deps := append(d.dependencies(s), after...)
	s.last = t
	d.scheduler.Submit(t, deps)
}

// CtxGetStreamPriorityRange implements gpubackend.Driver.
func (d *Device) CtxGetStreamPriorityRange() (least, greatest uint64, result gpubackend.Result) {
	if _, result := d.context(); result != gpubackend.Success {
		return 0, 0, result
	}
	lowest, highest := int64(leastPriority), int64(greatestPriority)
	return uint64(lowest), uint64(highest), gpubackend.Success
}

// StreamCreateWithPriority implements gpubackend.Driver. Any priority will do: CUDA cuts it to its range.
func (d *Device) StreamCreateWithPriority(flags, _ uint64) (gpubackend.Stream, gpubackend.Result) {
	c, result := d.context()
	if result != gpubackend.Success {
		return 0, result
	}
	if flags&^streamNonBlocking != 0 {
		return 0, gpubackend.InvalidValue
	}
	return d.newStream(&stream{ctx: c, green: d.green, blocking: flags&streamNonBlocking == 0}), gpubackend.Success
}

func (d *Device) newStream(s *stream) gpubackend.Stream {
	d.forget(s.ctx)
	s.handle = d.handles.Add(s)
	s.ctx.streams = append(s.ctx.streams, s)
	return gpubackend.Stream(s.handle)
}

// StreamDestroy implements gpubackend.Driver. Work in the stream goes on.
func (d *Device) StreamDestroy(h gpubackend.Stream) gpubackend.Result {
	s, result := d.stream(h)
	if result != gpubackend.Success {
		return result
	}
	if s.isLegacy() {
		return gpubackend.InvalidHandle
	}
	d.abandon(s)
	s.destroyed = true
	d.handles.Remove(s.handle)
	return gpubackend.Success
}

// StreamQuery implements gpubackend.Driver.
func (d *Device) StreamQuery(h gpubackend.Stream) gpubackend.Result {
	s, result := d.stream(h)
	if result != gpubackend.Success {
		return result
	}
	if result := d.admit(s); result != gpubackend.Success {
		return result
	}
	if result := s.refuse(); result != gpubackend.Success {
		return result
	}
	if !d.scheduler.AllDone(d.ownWork(s)) {
		return gpubackend.NotReady
	}
	return d.state(s.ctx) // the last task may just have failed
}

// ownWork returns what must be done for a stream to be idle. The legacy stream's work includes that of all
// blocking streams, as any operation put into it would have to wait for them.
func (d *Device) ownWork(s *stream) []*scheduler.Task {
	if s.isLegacy() {
		return d.dependencies(s)
	}
	return []*scheduler.Task{s.last}
}

// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// Priorities of streams. They are accepted; streams run side by side here.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// stream is a CUstream: a chain of tasks.
type stream struct {
	ctx       *contexts.Context
	group     *streamGroup
	handle    uint64
	blocking  bool // waits for the legacy default stream, which waits for it
	destroyed bool
	last      *scheduler.Task // the latest, nil for none

	capture *capture // what it is recorded into, nil if it isn't
	tail    []*node  // what the next node of the capture comes after

	attributes streamAttributes
}

func (s *stream) Owner() *contexts.Context { return s.ctx }

// streamSet is the streams of a context.
type streamSet struct {
	ctx   *contexts.Context
	list  []*stream    // without the legacy stream; destroyed ones too until they are idle
	whole *streamGroup // those in no green context
	parts map[*contexts.Green]*streamGroup
}

// streamGroup is streams that share a default stream, which orders the blocking ones: those of a
// context or of a green one.
type streamGroup struct {
	set    *streamSet
	green  *contexts.Green // nil for those in no green context
	legacy *stream
}

// set returns the streams of a context.
func (d *Device) set(c *contexts.Context) *streamSet {
	set := d.sets[c]
	if set == nil {
		set = &streamSet{ctx: c, parts: make(map[*contexts.Green]*streamGroup)}
		set.whole = &streamGroup{set: set}
		set.whole.legacy = &stream{ctx: c, group: set.whole, blocking: true}
		d.sets[c] = set
	}
	return set
}

// group returns the streams of a context, or of a green context that is part of it.
func (d *Device) group(c *contexts.Context, g *contexts.Green) *streamGroup {
	set := d.set(c)
	if g == nil {
		return set.whole
	}
	part := set.parts[g]
	if part == nil {
		part = &streamGroup{set: set, green: g}
		part.legacy = &stream{ctx: c, group: part}
		set.parts[g] = part
		set.list = append(set.list, part.legacy)
	}
	return part
}

// lasts returns the tasks after which all work queued so far is done.
func (d *Device) lasts() []*scheduler.Task {
	var tasks []*scheduler.Task
	for _, set := range d.sets {
		tasks = append(tasks, set.whole.legacy.last)
		for _, s := range set.list {
			tasks = append(tasks, s.last)
		}
	}
	return tasks
}

// destroyStreams destroys the streams of a green context. Work in them goes on.
func (d *Device) destroyStreams(g *contexts.Green) {
	set := d.set(g.Context)
	for _, s := range set.list {
		if s.group.green == g && !s.destroyed {
			d.abandon(s)
			s.destroyed = true
			d.handles.Remove(s.handle)
		}
	}
	delete(set.parts, g)
}

// dropStreams forgets the streams of a context whose work has ended.
func (d *Device) dropStreams(c *contexts.Context) { delete(d.sets, c) }

// stream returns the stream of a handle if its context is usable.
func (d *Device) stream(h gpubackend.Stream) (*stream, gpubackend.Result) {
	c, result := d.Current()
	if result != gpubackend.Success {
		return nil, result
	}
	if h == gpubackend.DefaultStream || h == gpubackend.LegacyStream {
		return d.group(c, d.CurrentGreen()).legacy, gpubackend.Success
	}
	s, ok := handles.Find[*stream](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return s, s.ctx.State()
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
func (s *stream) legacy() *stream { return s.group.legacy }

func (s *stream) isLegacy() bool { return s == s.legacy() }

// dependencies returns what the next task of s must wait for.
func (d *Device) dependencies(s *stream) []*scheduler.Task {
	if !s.isLegacy() {
		if s.blocking {
			return []*scheduler.Task{s.last, s.legacy().last}
		}
		return []*scheduler.Task{s.last}
	}
	set := s.group.set
	d.forget(set)
	tasks := make([]*scheduler.Task, 1, len(set.list)+1)
	tasks[0] = s.last
	for _, other := range set.list {
		if other.blocking && other.group == s.group {
			tasks = append(tasks, other.last)
		}
	}
	return tasks
}

// forget drops a context's destroyed streams that are idle.
func (d *Device) forget(set *streamSet) {
	kept := set.list[:0]
	for _, s := range set.list {
		if !s.destroyed || !d.scheduler.IsDone(s.last) {
			kept = append(kept, s)
		}
	}
	clear(set.list[len(kept):])
	set.list = kept
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
	if _, result := d.Current(); result != gpubackend.Success {
		return 0, 0, result
	}
	lowest, highest := int64(leastPriority), int64(greatestPriority)
	return uint64(lowest), uint64(highest), gpubackend.Success
}

// StreamCreateWithPriority implements gpubackend.Driver. Any priority will do: CUDA cuts it to its
// range.
func (d *Device) StreamCreateWithPriority(flags, priority uint64) (gpubackend.Stream, gpubackend.Result) {
	c, result := d.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	if flags&^cudaabi.StreamNonBlocking != 0 {
		return 0, gpubackend.InvalidValue
	}
	s := &stream{ctx: c, group: d.group(c, d.CurrentGreen()), blocking: flags&cudaabi.StreamNonBlocking == 0}
	if priority != 0 {
		s.attributes = streamAttributes{cudaabi.LaunchAttributePriority: priorityValue(priority)}
	}
	return d.newStream(s), gpubackend.Success
}

func (d *Device) newStream(s *stream) gpubackend.Stream {
	set := s.group.set
	d.forget(set)
	s.handle = d.handles.Add(s)
	set.list = append(set.list, s)
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
	return s.ctx.State() // the last task may just have failed
}

// ownWork returns what must be done for a stream to be idle. The legacy stream's work includes that
// of all blocking streams, as any operation put into it would have to wait for them.
func (d *Device) ownWork(s *stream) []*scheduler.Task {
	if s.isLegacy() {
		return d.dependencies(s)
	}
	return []*scheduler.Task{s.last}
}

// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// Priorities of streams. They are accepted; streams run side by side here.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// Options are what a device's streams are given.
type Options struct {
	Handles   *handles.Table
	Scheduler *scheduler.Scheduler
	Contexts  *contexts.Contexts
	Memory    *memory.Memory
	Graphs    *graphs.Graphs
}

// Streams are the streams and events of a device, and the captures of streams into graphs.
type Streams struct {
	options     Options
	sets        map[*contexts.Context]*streamSet
	captures    int    // how many go on
	lastCapture uint64 // number of the latest
}

// New returns the streams of a device, which has only the default streams.
func New(o Options) *Streams {
	return &Streams{options: o, sets: make(map[*contexts.Context]*streamSet)}
}

// Stream is a CUstream: a chain of tasks.
type Stream struct {
	ctx       *contexts.Context
	group     *streamGroup
	handle    uint64
	blocking  bool // it and the legacy default stream wait for each other
	destroyed bool
	last      *scheduler.Task // the latest, nil for none

	capture *capture       // what it is recorded into, nil if it isn't
	tail    []*graphs.Node // what the next node of the capture comes after

	attributes streamAttributes
}

// Owner implements contexts.Owned.
func (s *Stream) Owner() *contexts.Context { return s.ctx }

// Context is the context that the stream is in.
func (s *Stream) Context() *contexts.Context { return s.ctx }

// Green is the green context that the stream is in, nil for none.
func (s *Stream) Green() *contexts.Green { return s.group.green }

// Recording says whether the stream is captured: what is put into it is to become a node (Record).
func (s *Stream) Recording() bool { return s.capture != nil }

// streamSet is the streams of a context.
type streamSet struct {
	ctx   *contexts.Context
	list  []*Stream    // without the legacy stream; destroyed ones too until they are idle
	whole *streamGroup // those in no green context
	parts map[*contexts.Green]*streamGroup
}

// streamGroup is streams that share a default stream, which orders the blocking ones: those of a
// context or of a green one.
type streamGroup struct {
	set    *streamSet
	green  *contexts.Green // nil for those in no green context
	legacy *Stream
}

// setOf returns the streams of a context.
func (x *Streams) setOf(c *contexts.Context) *streamSet {
	set := x.sets[c]
	if set == nil {
		set = &streamSet{ctx: c, parts: make(map[*contexts.Green]*streamGroup)}
		set.whole = &streamGroup{set: set}
		set.whole.legacy = &Stream{ctx: c, group: set.whole, blocking: true}
		x.sets[c] = set
	}
	return set
}

// group returns the streams of a context, or of a green context that is part of it.
func (x *Streams) group(c *contexts.Context, g *contexts.Green) *streamGroup {
	set := x.setOf(c)
	if g == nil {
		return set.whole
	}
	part := set.parts[g]
	if part == nil {
		part = &streamGroup{set: set, green: g}
		part.legacy = &Stream{ctx: c, group: part}
		set.parts[g] = part
		set.list = append(set.list, part.legacy)
	}
	return part
}

// Lasts returns the tasks after which all work queued so far is done.
func (x *Streams) Lasts() []*scheduler.Task {
	var tasks []*scheduler.Task
	for _, set := range x.sets {
		tasks = append(tasks, set.whole.legacy.last)
		for _, s := range set.list {
			tasks = append(tasks, s.last)
		}
	}
	return tasks
}

// Captures is how many captures go on.
func (x *Streams) Captures() int { return x.captures }

// Kept is how many streams of a context there are, counting destroyed ones that have work.
func (x *Streams) Kept(c *contexts.Context) int { return len(x.setOf(c).list) }

// Leave ends the captures of a context's streams.
func (x *Streams) Leave(c *contexts.Context) {
	for _, s := range x.setOf(c).list {
		x.abandon(s)
	}
}

// BeginGreen gives a green context its default stream.
func (x *Streams) BeginGreen(g *contexts.Green) { x.group(g.Context, g) }

// AddToGreen makes a stream in a green context.
func (x *Streams) AddToGreen(g *contexts.Green) gpubackend.Stream {
	return x.add(&Stream{ctx: g.Context, group: x.group(g.Context, g)})
}

// EndGreen destroys the streams of a green context. Work in them goes on.
func (x *Streams) EndGreen(g *contexts.Green) {
	set := x.setOf(g.Context)
	for _, s := range set.list {
		if s.group.green == g && !s.destroyed {
			x.abandon(s)
			s.destroyed = true
			x.options.Handles.Remove(s.handle)
		}
	}
	delete(set.parts, g)
}

// Drop forgets the streams of a context whose work has ended.
func (x *Streams) Drop(c *contexts.Context) { delete(x.sets, c) }

// Find returns the stream of a handle if its context is usable.
func (x *Streams) Find(h gpubackend.Stream) (*Stream, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return nil, result
	}
	if h == gpubackend.DefaultStream || h == gpubackend.LegacyStream {
		return x.group(c, x.options.Contexts.CurrentGreen()).legacy, gpubackend.Success
	}
	s, ok := handles.Find[*Stream](x.options.Handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidHandle
	}
	return s, s.ctx.State()
}

// Target is Find for a call that is about to queue work: it makes sure that there is room.
func (x *Streams) Target(h gpubackend.Stream) (*Stream, gpubackend.Result) {
	s, result := x.Find(h)
	if result == gpubackend.Success {
		result = x.admit(s)
	}
	if result == gpubackend.Success && !x.options.Scheduler.Throttle() {
		return nil, gpubackend.OutOfMemory
	}
	return s, result
}

// legacy returns the default stream of the context or green context that s is in.
func (s *Stream) legacy() *Stream { return s.group.legacy }

func (s *Stream) isLegacy() bool { return s == s.legacy() }

// Dependencies returns what the next task of s must wait for.
func (x *Streams) Dependencies(s *Stream) []*scheduler.Task {
	if !s.isLegacy() {
		if s.blocking {
			return []*scheduler.Task{s.last, s.legacy().last}
		}
		return []*scheduler.Task{s.last}
	}
	set := s.group.set
	x.forget(set)
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
func (x *Streams) forget(set *streamSet) {
	kept := set.list[:0]
	for _, s := range set.list {
		if !s.destroyed || !x.options.Scheduler.IsDone(s.last) {
			kept = append(kept, s)
		}
	}
	clear(set.list[len(kept):])
	set.list = kept
}

// Enqueue adds a task to a stream, after others that it must wait for too.
func (x *Streams) Enqueue(s *Stream, t *scheduler.Task, after ...*scheduler.Task) {
	t.Domain = s.ctx.Domain
	deps := append(x.Dependencies(s), after...)
	s.last = t
	x.options.Scheduler.Submit(t, deps)
}

// CtxGetStreamPriorityRange implements gpubackend.Driver.
func (x *Streams) CtxGetStreamPriorityRange() (least, greatest uint64, result gpubackend.Result) {
	if _, result := x.options.Contexts.Current(); result != gpubackend.Success {
		return 0, 0, result
	}
	lowest, highest := int64(leastPriority), int64(greatestPriority)
	return uint64(lowest), uint64(highest), gpubackend.Success
}

// StreamCreateWithPriority implements gpubackend.Driver. Any priority will do: CUDA cuts it to its
// range.
func (x *Streams) StreamCreateWithPriority(
	flags, priority uint64,
) (gpubackend.Stream, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	if flags&^cudaabi.StreamNonBlocking != 0 {
		return 0, gpubackend.InvalidValue
	}
	group := x.group(c, x.options.Contexts.CurrentGreen())
	s := &Stream{ctx: c, group: group, blocking: flags&cudaabi.StreamNonBlocking == 0}
	if priority != 0 {
		s.attributes = streamAttributes{cudaabi.LaunchAttributePriority: priorityValue(priority)}
	}
	return x.add(s), gpubackend.Success
}

func (x *Streams) add(s *Stream) gpubackend.Stream {
	set := s.group.set
	x.forget(set)
	s.handle = x.options.Handles.Add(s)
	set.list = append(set.list, s)
	return gpubackend.Stream(s.handle)
}

// StreamDestroy implements gpubackend.Driver. Work in the stream goes on.
func (x *Streams) StreamDestroy(h gpubackend.Stream) gpubackend.Result {
	s, result := x.Find(h)
	if result != gpubackend.Success {
		return result
	}
	if s.isLegacy() {
		return gpubackend.InvalidHandle
	}
	x.abandon(s)
	s.destroyed = true
	x.options.Handles.Remove(s.handle)
	return gpubackend.Success
}

// StreamQuery implements gpubackend.Driver.
func (x *Streams) StreamQuery(h gpubackend.Stream) gpubackend.Result {
	s, result := x.Find(h)
	if result != gpubackend.Success {
		return result
	}
	if result := s.Refuse(); result != gpubackend.Success {
		return result
	}
	if result := x.admit(s); result != gpubackend.Success {
		return result
	}
	if !x.options.Scheduler.AllDone(x.ownWork(s)) {
		return gpubackend.NotReady
	}
	return s.ctx.State() // the last task may just have failed
}

// ownWork returns what must be done for a stream to be idle. The legacy stream's work includes that
// of all blocking streams, as any operation put into it would have to wait for them.
func (x *Streams) ownWork(s *Stream) []*scheduler.Task {
	if s.isLegacy() {
		return x.Dependencies(s)
	}
	return []*scheduler.Task{s.last}
}

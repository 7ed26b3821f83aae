// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"iter"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// GraphLaunch implements gpubackend.Driver. The launch comes after the stream's earlier work and
// the graph's earlier launches, and is queued as a whole or not at all. It can't be recorded.
func (x *Exec) GraphLaunch(h gpubackend.GraphExec, sh gpubackend.Stream) gpubackend.Result {
	e, result := x.executable(h)
	if result != gpubackend.Success {
		return result
	}
	s, result := x.options.Streams.Target(sh)
	if result != gpubackend.Success {
		return result
	}
	if result := s.Refuse(); result != gpubackend.Success {
		return result
	}
	tasks, result := x.tasksOf(e, s.Context())
	if result != gpubackend.Success {
		return result
	}
	autoFree := e.flags&cudaabi.GraphInstantiateFlagAutoFreeOnLaunch != 0
	if !x.options.Graphs.CanAllocate(e.nodes(), autoFree) {
		return gpubackend.InvalidValue
	}
	start, end := &scheduler.Task{}, &scheduler.Task{}
	x.beginConditions(e, start, end)
	x.options.Streams.Enqueue(s, start, e.last)
	x.submitSteps(e, tasks, start)
	x.options.Streams.Enqueue(s, end, tasks...)
	e.last = end
	return gpubackend.Success
}

// tasksOf makes a task for each step.
func (x *Exec) tasksOf(e *executable, c *contexts.Context) ([]*scheduler.Task, gpubackend.Result) {
	tasks := make([]*scheduler.Task, len(e.steps))
	for i := range e.steps {
		run, result := x.maker(e, &e.steps[i], c)
		if result != gpubackend.Success {
			return nil, result
		}
		tasks[i] = run()
	}
	return tasks, gpubackend.Success
}

// maker prepares a step of a launch in a stream of context c.
func (x *Exec) maker(e *executable, s *step, c *contexts.Context) (maker, gpubackend.Result) {
	n := s.node
	if n == nil || e.disabled[n] {
		return func() *scheduler.Task { return &scheduler.Task{Domain: c.Domain} },
			gpubackend.Success
	}
	if result := n.Context.State(); result != gpubackend.Success {
		return nil, result
	}
	if n.What.Type == gpubackend.NodeConditional {
		return x.chooser(e, s)
	}
	if prepare := x.options.Prepare[n.What.Type]; prepare != nil {
		what := n.What
		return prepare(&what, n.Context)
	}
	ctx := n.Context
	return func() *scheduler.Task { return &scheduler.Task{Domain: ctx.Domain} }, gpubackend.Success
}

// nodes are those of the steps, in their order.
func (e *executable) nodes() iter.Seq[*graphs.Node] {
	return func(yield func(*graphs.Node) bool) {
		for i := range e.steps {
			if n := e.steps[i].node; n != nil && !yield(n) {
				return
			}
		}
	}
}

// submitSteps queues the steps of a launch after its start. Events are recorded and waited for as
// if their calls came in the order of the steps.
func (x *Exec) submitSteps(e *executable, tasks []*scheduler.Task, start *scheduler.Task) {
	if e.flags&cudaabi.GraphInstantiateFlagAutoFreeOnLaunch != 0 {
		x.freeLeft(e)
	}
	for i := range e.steps {
		n := e.steps[i].node
		deps := make([]*scheduler.Task, 0, len(e.steps[i].after)+1)
		for _, k := range e.steps[i].after {
			deps = append(deps, tasks[k])
		}
		if len(deps) == 0 {
			deps = append(deps, start)
		}
		if n != nil {
			deps = x.apply(n, tasks[i], deps)
		}
		x.options.Scheduler.Submit(tasks[i], deps)
	}
}

// apply notes the effect that a node has on events and memory, and adds what else its task waits
// for.
func (x *Exec) apply(n *graphs.Node, t *scheduler.Task, deps []*scheduler.Task) []*scheduler.Task {
	switch n.What.Type {
	case gpubackend.NodeEventRecord:
		x.options.Streams.RecordNode(n.What.Event, t)
	case gpubackend.NodeEventWait:
		deps = append(deps, x.options.Streams.Recorded(n.What.Event))
	default:
		x.options.Graphs.AllocateAndFree(n)
	}
	return deps
}

// freeLeft frees what an earlier launch has allocated and nobody freed.
func (x *Exec) freeLeft(e *executable) {
	for n := range e.nodes() {
		x.options.Graphs.FreeLeft(n)
	}
}

// GraphFree implements gpubackend.Driver. Whether memory is allocated goes by the order of the
// calls; it is used again when the work that was queued before is done.
func (x *Exec) GraphFree(address uint64, h gpubackend.Stream) gpubackend.Result {
	if !x.options.Graphs.HasAllocated(address) {
		return gpubackend.NotFound
	}
	if _, result := x.options.Streams.Target(h); result != gpubackend.Success {
		return result
	}
	return x.options.Graphs.Free(address)
}

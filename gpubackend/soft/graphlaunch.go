// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// GraphLaunch implements gpubackend.Driver. The launch comes after the stream's earlier work and
// the graph's earlier launches, and is queued as a whole or not at all. It can't be recorded.
func (d *Device) GraphLaunch(h gpubackend.GraphExec, sh gpubackend.Stream) gpubackend.Result {
	e, result := d.graphExec(h)
	if result != gpubackend.Success {
		return result
	}
	s, result := d.target(sh)
	if result != gpubackend.Success {
		return result
	}
	if result := s.refuse(); result != gpubackend.Success {
		return result
	}
	tasks, result := d.tasksOf(e, s.ctx)
	if result != gpubackend.Success {
		return result
	}
	if !d.canAllocate(e) {
		return gpubackend.InvalidValue
	}
	start, end := &scheduler.Task{}, &scheduler.Task{}
	d.beginConditions(e, start, end)
	d.enqueue(s, start, e.last)
	d.submitSteps(e, tasks, start)
	d.enqueue(s, end, tasks...)
	e.last = end
	return gpubackend.Success
}

// maker makes the task of a step, on any goroutine and as often as the step runs.
type maker func() *scheduler.Task

// tasksOf makes a task for each step.
func (d *Device) tasksOf(e *graphExec, c *contexts.Context) ([]*scheduler.Task, gpubackend.Result) {
	tasks := make([]*scheduler.Task, len(e.steps))
	for i := range e.steps {
		run, result := d.maker(e, &e.steps[i], c)
		if result != gpubackend.Success {
			return nil, result
		}
		tasks[i] = run()
	}
	return tasks, gpubackend.Success
}

// maker prepares a step of a launch in a stream of context c.
func (d *Device) maker(e *graphExec, s *step, c *contexts.Context) (maker, gpubackend.Result) {
	n := s.node
	if n == nil || e.disabled[n] {
		return func() *scheduler.Task { return &scheduler.Task{Domain: c.Domain} }, gpubackend.Success
	}
	if result := n.ctx.State(); result != gpubackend.Success {
		return nil, result
	}
	ctx, what := n.ctx, n.what
	switch what.Type {
	case gpubackend.NodeKernel:
		f, cooperative, result := d.prepare(&what.Launch, uint32(d.options.Multiprocessors))
		return func() *scheduler.Task { return d.kernelTask(f, &what.Launch, what.Launch.Parameters, cooperative, nil) }, result
	case gpubackend.NodeMemcpy:
		m, result := copyMovement(&what.Copy)
		return func() *scheduler.Task { return d.moveTask(ctx, m) }, result
	case gpubackend.NodeMemset:
		m, result := fillMovement(&what.Fill)
		return func() *scheduler.Task { return d.moveTask(ctx, m) }, result
	case gpubackend.NodeHost:
		return func() *scheduler.Task { return d.hostTask(&what, ctx) }, gpubackend.Success
	case gpubackend.NodeConditional:
		return d.chooser(e, s)
	case gpubackend.NodeEventRecord, gpubackend.NodeEventWait:
		_, result := d.event(what.Event)
		return func() *scheduler.Task { return &scheduler.Task{Domain: ctx.Domain} }, result
	}
	return func() *scheduler.Task { return &scheduler.Task{Domain: ctx.Domain} }, gpubackend.Success
}

// submitSteps queues the steps of a launch after its start. Events are recorded and waited for as
// if their calls came in the order of the steps.
func (d *Device) submitSteps(e *graphExec, tasks []*scheduler.Task, start *scheduler.Task) {
	if e.flags&cudaabi.GraphInstantiateFlagAutoFreeOnLaunch != 0 {
		d.freeLeft(e)
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
			deps = d.apply(n, tasks[i], deps)
		}
		d.scheduler.Submit(tasks[i], deps)
	}
}

// apply does what a node does to the device's books, and adds what else its task waits for.
func (d *Device) apply(n *node, t *scheduler.Task, deps []*scheduler.Task) []*scheduler.Task {
	switch n.what.Type {
	case gpubackend.NodeEventRecord:
		if event, result := d.event(n.what.Event); result == gpubackend.Success {
			event.record, event.capture, event.nodes = t, nil, nil
		}
	case gpubackend.NodeEventWait:
		if event, result := d.event(n.what.Event); result == gpubackend.Success {
			deps = append(deps, event.record)
		}
	default:
		d.allocateAndFree(n)
	}
	return deps
}

// freeLeft frees what an earlier launch has allocated and nobody freed.
func (d *Device) freeLeft(e *graphExec) {
	for i := range e.steps {
		if n := e.steps[i].node; n != nil && n.memory != nil {
			n.memory.setLive(d, false)
		}
	}
}

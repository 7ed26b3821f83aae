// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// GraphLaunch implements gpubackend.Driver. The launch comes after the stream's earlier work and the graph's earlier
// launches, and is queued as a whole or not at all. It can't be recorded.
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
	start, end := &task{}, &task{}
	d.enqueue(s, start, e.last)
	d.submitSteps(e, tasks, start)
	d.enqueue(s, end, tasks...)
	e.last = end
	return gpubackend.Success
}

// tasksOf makes a task for each step.
func (d *Device) tasksOf(e *graphExec, c *gpuContext) ([]*task, gpubackend.Result) {
	tasks := make([]*task, len(e.steps))
	for i := range e.steps {
		n := e.steps[i].node
		if n == nil || e.disabled[n] {
			tasks[i] = &task{ctx: c}
			continue
		}
		t, result := d.nodeTask(n)
		if result != gpubackend.Success {
			return nil, result
		}
		if t.ctx == nil {
			t.ctx = n.ctx
		}
		tasks[i] = t
	}
	return tasks, gpubackend.Success
}

// nodeTask makes the task of a node.
func (d *Device) nodeTask(n *node) (*task, gpubackend.Result) {
	if result := d.state(n.ctx); result != gpubackend.Success {
		return nil, result
	}
	w := &n.what
	switch w.Type {
	case gpubackend.NodeKernel:
		f, cooperative, result := d.prepare(&w.Launch)
		if result != gpubackend.Success {
			return nil, result
		}
		return d.kernelTask(f, &w.Launch, w.Launch.Parameters, cooperative), gpubackend.Success
	case gpubackend.NodeMemcpy:
		m, result := copyMovement(&w.Copy)
		return d.moveTask(n.ctx, m), result
	case gpubackend.NodeMemset:
		m, result := fillMovement(&w.Fill)
		return d.moveTask(n.ctx, m), result
	case gpubackend.NodeHost:
		return d.hostTask(w), gpubackend.Success
	case gpubackend.NodeEventRecord, gpubackend.NodeEventWait:
		_, result := d.event(w.Event)
		return &task{}, result
	}
	return &task{}, gpubackend.Success
}

// submitSteps queues the steps of a launch after its start. Events are recorded and waited for as if their calls came
// in the order of the steps.
func (d *Device) submitSteps(e *graphExec, tasks []*task, start *task) {
	if e.flags&autoFreeOnLaunch != 0 {
		d.freeLeft(e)
	}
	for i := range e.steps {
		n := e.steps[i].node
		deps := make([]*task, 0, len(e.steps[i].after)+1)
		for _, k := range e.steps[i].after {
			deps = append(deps, tasks[k])
		}
		if len(deps) == 0 {
			deps = append(deps, start)
		}
		if n != nil {
			deps = d.apply(n, tasks[i], deps)
		}
		d.scheduler.submit(tasks[i], deps)
	}
}

// apply does what a node does to the device's books, and adds what else its task waits for.
func (d *Device) apply(n *node, t *task, deps []*task) []*task {
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

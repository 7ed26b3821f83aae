// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// conditional is one run of a conditional node. As that of a host function, its task is over only
// when it is released: by the task that comes after the last run of a body.
type conditional struct {
	scheduler *scheduler.Scheduler
	ctx       *contexts.Context
	condition *graphs.Condition
	kind      uint64
	bodies    []body
	task      *scheduler.Task
}

// body is a body of a conditional node, ready to run any number of times.
type body struct {
	steps []step
	make  []maker
}

// chooser prepares a conditional node and its bodies.
func (x *Exec) chooser(e *executable, s *step) (maker, gpubackend.Result) {
	n := s.node
	c := conditional{scheduler: x.options.Scheduler, ctx: n.Context, condition: n.Condition,
		kind: n.What.Kind}
	for _, steps := range s.bodies {
		b := body{steps: steps}
		for i := range steps {
			run, result := x.maker(e, &steps[i], n.Context)
			if result != gpubackend.Success {
				return nil, result
			}
			b.make = append(b.make, run)
		}
		c.bodies = append(c.bodies, b)
	}
	return func() *scheduler.Task {
		one := c
		one.task = &scheduler.Task{Class: scheduler.Host, Domain: c.ctx.Domain}
		one.task.Run = one.begin
		return one.task
	}, gpubackend.Success
}

// begin runs the body that the condition asks for.
func (c *conditional) begin() {
	value := uint64(c.condition.Value.Load())
	chosen := value
	if c.kind != cudaabi.GraphCondSwitch {
		chosen = 0
		if value == 0 {
			chosen = 1
		}
	}
	if chosen < uint64(len(c.bodies)) {
		c.run(&c.bodies[chosen])
	} else {
		c.scheduler.Release(c.task)
	}
}

// run submits a body, and after it the task that decides how to go on.
func (c *conditional) run(b *body) {
	tasks := make([]*scheduler.Task, len(b.steps))
	for i := range b.steps {
		tasks[i] = b.make[i]()
		deps := make([]*scheduler.Task, 0, len(b.steps[i].after))
		for _, k := range b.steps[i].after {
			deps = append(deps, tasks[k])
		}
		c.scheduler.Submit(tasks[i], deps)
	}
	// Without a context: it runs also when the body has failed.
	c.scheduler.Submit(&scheduler.Task{Class: scheduler.Memory, Run: c.ended}, tasks)
}

// ended runs the body of a loop again, or ends the node.
func (c *conditional) ended() {
	if c.kind == cudaabi.GraphCondWhile && c.condition.Value.Load() != 0 && !c.over() {
		c.run(&c.bodies[0])
		return
	}
	c.scheduler.Release(c.task)
}

// over says whether the context has failed, or nobody waits for it any more.
func (c *conditional) over() bool {
	return c.scheduler.GivenUp(c.task)
}

// beginConditions makes a launch begin with its conditions' initial values, and keeps the
// conditions until it ends.
func (x *Exec) beginConditions(e *executable, start, end *scheduler.Task) {
	if len(e.conditions) == 0 {
		return
	}
	list := e.conditions
	for _, c := range list {
		x.options.Graphs.HoldCondition(c)
	}
	start.Then = func() {
		for _, c := range list {
			if c.Assign {
				c.Value.Store(c.Initial)
			}
		}
	}
	end.Then = func() {
		for _, c := range list {
			x.options.Graphs.ReleaseCondition(c)
		}
	}
}

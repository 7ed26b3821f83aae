// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

// instantiateFlags are those of cuGraphInstantiate. Priorities of nodes are accepted: nodes run
// side by side here.
const instantiateFlags = cudaabi.GraphInstantiateFlagAutoFreeOnLaunch |
	cudaabi.GraphInstantiateFlagUpload |
	cudaabi.GraphInstantiateFlagDeviceLaunch | cudaabi.GraphInstantiateFlagUseNodePriority

// Prepare returns the function that makes the task of a node's work in a context, once for each
// run.
type Prepare func(n *gpubackend.Node, c *contexts.Context) (maker, gpubackend.Result)

// maker makes the task of a step, on any goroutine and as often as the step runs.
type maker = func() *scheduler.Task

// Options are what a device's executable graphs are given.
type Options struct {
	Handles   *handles.Table
	Contexts  *contexts.Contexts
	Scheduler *scheduler.Scheduler
	Graphs    *graphs.Graphs
	Streams   *streams.Streams
	// Prepare has a function for each type of node whose work is another room's.
	Prepare map[gpubackend.NodeType]Prepare
}

// Exec is the executable graphs of a device.
type Exec struct{ options Options }

// New returns the executable graphs of a device, which has none yet.
func New(o Options) *Exec { return &Exec{options: o} }

// executable is a CUgraphExec: a copy of a graph, and its nodes in an order in which they can be
// queued.
type executable struct {
	source   *graphs.Graph
	graph    *graphs.Graph
	flags    uint64
	steps    []step
	own      map[*graphs.Node]*graphs.Node // the copy of each node of the source
	disabled map[*graphs.Node]bool
	last     *scheduler.Task // end of the launch before: launches come one after another

	conditions []*graphs.Condition // that it sets when it is launched
}

func (x *Exec) executable(h gpubackend.GraphExec) (*executable, gpubackend.Result) {
	return handles.Of[*executable](x.options.Handles, uint64(h), gpubackend.InvalidValue)
}

// GraphInstantiateWithFlags implements gpubackend.Driver. Nothing is uploaded.
func (x *Exec) GraphInstantiateWithFlags(
	h gpubackend.Graph, flags uint64,
) (gpubackend.GraphExec, gpubackend.Result) {
	if flags&cudaabi.GraphInstantiateFlagUpload != 0 {
		return 0, gpubackend.InvalidValue
	}
	e, _, result := x.instantiate(h, flags)
	return e, result
}

// GraphInstantiate implements gpubackend.Driver. There is nothing to upload.
func (x *Exec) GraphInstantiate(h gpubackend.Graph, flags uint64, upload gpubackend.Stream) (
	gpubackend.GraphExec, gpubackend.GraphNode, uint64, gpubackend.Result,
) {
	if flags&cudaabi.GraphInstantiateFlagUpload != 0 {
		if _, result := x.options.Streams.Target(upload); result != gpubackend.Success {
			return 0, 0, cudaabi.GraphInstantiateError, result
		}
	}
	e, status, result := x.instantiate(h, flags)
	return e, 0, status, result
}

func (x *Exec) instantiate(
	h gpubackend.Graph, flags uint64,
) (gpubackend.GraphExec, uint64, gpubackend.Result) {
	g, result := x.options.Graphs.Find(h)
	switch {
	case result != gpubackend.Success:
		return 0, cudaabi.GraphInstantiateError, result
	case g.Owner != nil:
		return 0, cudaabi.GraphInstantiateError, gpubackend.NotSupported
	case flags&^instantiateFlags != 0:
		return 0, cudaabi.GraphInstantiateError, gpubackend.InvalidValue
	case flags&cudaabi.GraphInstantiateFlagDeviceLaunch != 0:
		return 0, cudaabi.GraphInstantiateNodeOperationNotSupported, gpubackend.NotSupported
	case g.Instances > 0 && g.HasMemory():
		return 0, cudaabi.GraphInstantiateError,
			gpubackend.NotSupported // one at a time (cuGraphAddMemAllocNode)
	}
	status, result := g.CheckConditions()
	if result != gpubackend.Success {
		return 0, status, result
	}
	e := &executable{
		source: g, flags: flags, own: map[*graphs.Node]*graphs.Node{},
		disabled: map[*graphs.Node]bool{},
	}
	if e.graph, result = x.options.Graphs.CopyGraph(g, false); result != gpubackend.Success {
		return 0, cudaabi.GraphInstantiateError, result
	}
	if _, acyclic := e.plan(e.graph, nil); !acyclic {
		status, result = cudaabi.GraphInstantiateInvalidStructure, gpubackend.InvalidValue
	} else if countSteps(e.steps) > graphs.MaxSteps {
		status, result = cudaabi.GraphInstantiateError, gpubackend.OutOfMemory
	} else if result = x.chargeSteps(e); result != gpubackend.Success {
		status = cudaabi.GraphInstantiateError
	}
	if result != gpubackend.Success {
		x.options.Graphs.Remove(e.graph)
		return 0, status, result
	}
	g.Instances++
	e.conditions = e.graph.AllConditions(nil)
	return gpubackend.GraphExec(x.options.Handles.Add(e)), status, result
}

// chargeSteps accounts for the steps of an executable graph.
func (x *Exec) chargeSteps(e *executable) gpubackend.Result {
	return x.options.Graphs.Charge(graphs.StepBytes * countSteps(e.steps))
}

// GraphExecDestroy implements gpubackend.Driver. A launch goes on.
func (x *Exec) GraphExecDestroy(h gpubackend.GraphExec) gpubackend.Result {
	e, result := x.executable(h)
	if result != gpubackend.Success {
		return result
	}
	e.source.Instances--
	x.options.Graphs.Discharge(graphs.StepBytes * countSteps(e.steps))
	x.options.Graphs.Remove(e.graph)
	x.options.Handles.Remove(uint64(h))
	return gpubackend.Success
}

// GraphExecGetFlags implements gpubackend.Driver.
func (x *Exec) GraphExecGetFlags(h gpubackend.GraphExec) (uint64, gpubackend.Result) {
	e, result := x.executable(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return e.flags, gpubackend.Success
}

// GraphUpload implements gpubackend.Driver. There is nothing to upload.
func (x *Exec) GraphUpload(h gpubackend.GraphExec, sh gpubackend.Stream) gpubackend.Result {
	if _, result := x.executable(h); result != gpubackend.Success {
		return result
	}
	s, result := x.options.Streams.Target(sh)
	if result != gpubackend.Success {
		return result
	}
	return s.Refuse()
}

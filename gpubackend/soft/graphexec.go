// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// instantiateFlags are those of cuGraphInstantiate. Priorities of nodes are accepted: nodes run side by side here.
const instantiateFlags = cudaabi.GraphInstantiateFlagAutoFreeOnLaunch |
	cudaabi.GraphInstantiateFlagUpload |
	cudaabi.GraphInstantiateFlagDeviceLaunch | cudaabi.GraphInstantiateFlagUseNodePriority

// graphExec is a CUgraphExec: a copy of a graph, and its nodes in an order in which they can be
// queued.
type graphExec struct {
	source   *graph
	graph    *graph
	flags    uint64
	steps    []step
	own      map[*node]*node // the copy of each node of the source
	disabled map[*node]bool
	last     *scheduler.Task // end of the launch before: launches come one after another

	conditions []*condition // that it sets when it is launched
}

func (d *Device) graphExec(h gpubackend.GraphExec) (*graphExec, gpubackend.Result) {
	e, ok := handles.Find[*graphExec](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidValue
	}
	return e, gpubackend.Success
}

// GraphInstantiateWithFlags implements gpubackend.Driver. It has no stream to upload in.
func (d *Device) GraphInstantiateWithFlags(h gpubackend.Graph, flags uint64) (gpubackend.GraphExec, gpubackend.Result) {
	if flags&cudaabi.GraphInstantiateFlagUpload != 0 {
		return 0, gpubackend.InvalidValue
	}
	e, _, result := d.instantiate(h, flags)
	return e, result
}

// GraphInstantiate implements gpubackend.Driver. There is nothing to upload.
func (d *Device) GraphInstantiate(h gpubackend.Graph, flags uint64, upload gpubackend.Stream) (
	gpubackend.GraphExec, gpubackend.GraphNode, uint64, gpubackend.Result,
) {
	if flags&cudaabi.GraphInstantiateFlagUpload != 0 {
		if _, result := d.target(upload); result != gpubackend.Success {
			return 0, 0, cudaabi.GraphInstantiateError, result
		}
	}
	e, status, result := d.instantiate(h, flags)
	return e, 0, status, result
}

func (d *Device) instantiate(h gpubackend.Graph, flags uint64) (gpubackend.GraphExec, uint64, gpubackend.Result) {
	g, result := d.graph(h)
	switch {
	case result != gpubackend.Success:
		return 0, cudaabi.GraphInstantiateError, result
	case g.owner != nil:
		return 0, cudaabi.GraphInstantiateError, gpubackend.NotSupported
	case flags&^instantiateFlags != 0:
		return 0, cudaabi.GraphInstantiateError, gpubackend.InvalidValue
	case flags&cudaabi.GraphInstantiateFlagDeviceLaunch != 0:
		return 0, cudaabi.GraphInstantiateNodeOperationNotSupported, gpubackend.NotSupported
	case g.instances > 0 && g.hasMemory():
		return 0, cudaabi.GraphInstantiateError,
			gpubackend.NotSupported // one at a time (cuGraphAddMemAllocNode)
	}
	status, result := g.checkConditions()
	if result != gpubackend.Success {
		return 0, status, result
	}
	e := &graphExec{source: g, flags: flags, own: map[*node]*node{}, disabled: map[*node]bool{}}
	if e.graph, result = d.copyGraph(g, false); result != gpubackend.Success {
		return 0, cudaabi.GraphInstantiateError, result
	}
	if _, acyclic := e.plan(e.graph, nil); !acyclic {
		status, result = cudaabi.GraphInstantiateInvalidStructure, gpubackend.InvalidValue
	} else if countSteps(e.steps) > maxSteps {
		status, result = cudaabi.GraphInstantiateError, gpubackend.OutOfMemory
	} else if result = d.charge(stepBytes * countSteps(e.steps)); result != gpubackend.Success {
		status = cudaabi.GraphInstantiateError
	}
	if result != gpubackend.Success {
		d.dropGraph(e.graph)
		return 0, status, result
	}
	g.instances++
	e.conditions = e.graph.allConditions(nil)
	return gpubackend.GraphExec(d.handles.Add(e)), status, result
}

// GraphExecDestroy implements gpubackend.Driver. A launch goes on.
func (d *Device) GraphExecDestroy(h gpubackend.GraphExec) gpubackend.Result {
	e, result := d.graphExec(h)
	if result != gpubackend.Success {
		return result
	}
	e.source.instances--
	d.discharge(stepBytes * countSteps(e.steps))
	d.dropGraph(e.graph)
	d.handles.Remove(uint64(h))
	return gpubackend.Success
}

// GraphExecGetFlags implements gpubackend.Driver.
func (d *Device) GraphExecGetFlags(h gpubackend.GraphExec) (uint64, gpubackend.Result) {
	e, result := d.graphExec(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return e.flags, gpubackend.Success
}

// GraphUpload implements gpubackend.Driver. There is nothing to upload.
func (d *Device) GraphUpload(h gpubackend.GraphExec, sh gpubackend.Stream) gpubackend.Result {
	if _, result := d.graphExec(h); result != gpubackend.Success {
		return result
	}
	s, result := d.target(sh)
	if result != gpubackend.Success {
		return result
	}
	return s.refuse()
}

// emptyGraphs ends what streams of a context record, and takes away what its graphs allocated.
// Graphs stay, but nodes of the context can't run any more.
func (d *Device) emptyGraphs(c *contexts.Context) {
	for _, s := range d.set(c).list {
		d.abandon(s)
	}
	for _, m := range d.graphMemory {
		if m.ctx == c {
			d.loseGraphMemory(m)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// maxGraphObjects bounds the graphs, executable graphs and nodes that a guest has handles of.
const maxGraphObjects = 1 << 19

// naming are the functions that give handles to graphs, executable graphs or nodes, as many as they like.
var naming = []gpubackend.Op{
	gpubackend.OpStreamBeginCapture, gpubackend.OpStreamBeginCaptureToGraph, gpubackend.OpStreamCaptureInfo,
	gpubackend.OpGraphCreate, gpubackend.OpGraphClone, gpubackend.OpGraphInstantiate, gpubackend.OpGraphInstantiateWithFlags,
	gpubackend.OpGraphAddNode, gpubackend.OpGraphGetNodes, gpubackend.OpGraphGetRootNodes, gpubackend.OpGraphGetEdges,
	gpubackend.OpGraphNodeGetDependencies, gpubackend.OpGraphNodeGetDependentNodes, gpubackend.OpGraphNodeFindInClone,
}

func (w *Worker) roomForGraphs() bool {
	t := &w.objects
	return t.Count(object.Graph)+t.Count(object.GraphExec)+t.Count(object.GraphNode) < maxGraphObjects && t.Room(object.Graph)
}

// boundGraphs runs one of them unless there is no room, also for only a part of what it names.
func (w *Worker) boundGraphs(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	if !w.roomForGraphs() {
		return gpubackend.OutOfMemory
	}
	w.graphs.full = false
	result := run(c)
	if result == gpubackend.Success && w.graphs.full {
		return gpubackend.OutOfMemory
	}
	return result
}

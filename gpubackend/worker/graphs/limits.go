// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// MaxObjects bounds the graphs, executable graphs and nodes that a guest has handles of.
const MaxObjects = 1 << 19

// naming are the functions that make any number of handles for graphs, executable graphs or nodes.
var naming = []gpubackend.Op{
	gpubackend.OpStreamBeginCapture, gpubackend.OpStreamBeginCaptureToGraph,
	gpubackend.OpStreamCaptureInfo,
	gpubackend.OpGraphCreate, gpubackend.OpGraphClone, gpubackend.OpGraphInstantiate,
	gpubackend.OpGraphInstantiateWithFlags,
	gpubackend.OpGraphAddNode, gpubackend.OpGraphGetNodes, gpubackend.OpGraphGetRootNodes,
	gpubackend.OpGraphGetEdges,
	gpubackend.OpGraphNodeGetDependencies, gpubackend.OpGraphNodeGetDependentNodes,
	gpubackend.OpGraphNodeFindInClone,
}

func (s *Graphs) room() bool {
	t := s.Objects
	return t.Count(object.Graph)+t.Count(object.GraphExec)+t.Count(object.GraphNode) < MaxObjects &&
		t.Room(object.Graph)
}

// bound runs one of them if there is room for all the names that it may need.
func (s *Graphs) bound(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	if !s.room() {
		return gpubackend.OutOfMemory
	}
	s.full = false
	result := run(c)
	if result == gpubackend.Success && s.full {
		return gpubackend.OutOfMemory
	}
	return result
}

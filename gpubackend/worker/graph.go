// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// graphs is which handles the guest has for the driver's graphs and nodes, which the driver gives again and again.
type graphs struct {
	graph  map[gpubackend.Graph]uint64
	node   map[gpubackend.GraphNode]uint64
	recent uint64 // the last graph that was named: that of the nodes that are named next
	full   bool   // the call at hand found no room for a name
}

// findGraphNodes looks up an array of handles.
func (w *Worker) findGraphNodes(c *call.Call, i int) ([]gpubackend.GraphNode, gpubackend.Result) {
	b, result := c.Input(i)
	if result != gpubackend.Success {
		return nil, result
	}
	nodes := make([]gpubackend.GraphNode, len(b)/8)
	for k := range nodes {
		if nodes[k], result = handles.GraphNode(&w.objects, binary.LittleEndian.Uint64(b[8*k:])); result != gpubackend.Success {
			return nil, result
		}
	}
	return nodes, gpubackend.Success
}

// nameGraph gives a graph its handle; it dies with parent if that is a graph.
func (w *Worker) nameGraph(g gpubackend.Graph, parent uint64) uint64 {
	if g == 0 {
		return 0
	}
	h := w.graphs.graph[g]
	if _, ok := w.objects.Lookup(object.Graph, h); !ok {
		if !w.roomForGraphs() {
			w.graphs.full = true
			return 0
		}
		if _, ok := w.objects.Lookup(object.Graph, parent); !ok {
			parent = 0
		}
		h = w.objects.Add(object.Graph, uint64(g), parent)
		if w.graphs.graph == nil {
			w.graphs.graph = map[gpubackend.Graph]uint64{}
		}
		w.graphs.graph[g] = h
	}
	w.graphs.recent = h
	return h
}

// nameGraphNode gives a node its handle. of is its graph, another node of that, or else the graph was named just before.
func (w *Worker) nameGraphNode(n gpubackend.GraphNode, of uint64) uint64 {
	if n == 0 {
		return 0
	}
	if h := w.graphs.node[n]; h != 0 {
		if _, ok := w.objects.Lookup(object.GraphNode, h); ok {
			return h
		}
	}
	parent := of
	if _, ok := w.objects.Lookup(object.GraphNode, of); ok {
		parent = w.objects.Parent(of)
	} else if _, ok := w.objects.Lookup(object.Graph, of); !ok {
		parent = w.graphs.recent
	}
	if !w.roomForGraphs() {
		w.graphs.full = true
		return 0
	}
	h := w.objects.Add(object.GraphNode, uint64(n), parent)
	if w.graphs.node == nil {
		w.graphs.node = map[gpubackend.GraphNode]uint64{}
	}
	w.graphs.node[n] = h
	return h
}

// nameGraphNodes puts handles into the guest's buffer, as many as it takes, and returns how many there are.
func (w *Worker) nameGraphNodes(to []byte, nodes []gpubackend.GraphNode, of uint64) uint64 {
	for i, n := range nodes[:min(len(nodes), len(to)/8)] {
		binary.LittleEndian.PutUint64(to[8*i:], w.nameGraphNode(n, of))
	}
	return uint64(len(nodes))
}

// nameGraphs is nameGraphNodes for graphs that belong to nodes of a graph.
func (w *Worker) nameGraphs(to []byte, graphs []gpubackend.Graph, of uint64) uint64 {
	for i, g := range graphs[:min(len(graphs), len(to)/8)] {
		binary.LittleEndian.PutUint64(to[8*i:], w.nameGraph(g, of))
	}
	return uint64(len(graphs))
}

// forgetGraph forgets a graph and its nodes. The driver may give their own handles to others now.
func (w *Worker) forgetGraph(handle uint64) {
	w.objects.Remove(handle)
	w.sweepGraphs()
}

func (w *Worker) forgetGraphNode(handle uint64) {
	native, _ := w.objects.Lookup(object.GraphNode, handle)
	delete(w.graphs.node, gpubackend.GraphNode(native))
	w.objects.Remove(handle)
}

// sweepGraphs drops the names of graphs and nodes that are gone.
func (w *Worker) sweepGraphs() {
	for g, h := range w.graphs.graph {
		if _, ok := w.objects.Lookup(object.Graph, h); !ok {
			delete(w.graphs.graph, g)
		}
	}
	for n, h := range w.graphs.node {
		if _, ok := w.objects.Lookup(object.GraphNode, h); !ok {
			delete(w.graphs.node, n)
		}
	}
}

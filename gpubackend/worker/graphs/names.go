// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"encoding/binary"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// FindGraphNodes looks up an array of handles.
func (s *Graphs) FindGraphNodes(c *call.Call, i int) ([]gpubackend.GraphNode, gpubackend.Result) {
	b, result := c.Input(i)
	if result != gpubackend.Success {
		return nil, result
	}
	nodes := make([]gpubackend.GraphNode, len(b)/8)
	for k := range nodes {
		if nodes[k], result = handles.GraphNode(s.Objects,
			binary.LittleEndian.Uint64(b[8*k:])); result != gpubackend.Success {
			return nil, result
		}
	}
	return nodes, gpubackend.Success
}

// NameGraph gives a graph its handle; it ends with parent if that is a graph.
func (s *Graphs) NameGraph(g gpubackend.Graph, parent uint64) uint64 {
	if g == 0 {
		return 0
	}
	h := s.graph[g]
	if _, ok := s.Objects.Lookup(object.Graph, h); !ok {
		if !s.room() {
			s.full = true
			return 0
		}
		if _, ok := s.Objects.Lookup(object.Graph, parent); !ok {
			parent = 0
		}
		h = s.Objects.Add(object.Graph, uint64(g), parent)
		s.graph[g] = h
	}
	s.recent = h
	return h
}

// nameChild gives the child graph of a node its handle. The driver ends it with the node or the
// node's graph, and may then reuse its address.
func (s *Graphs) nameChild(g gpubackend.Graph, node uint64) uint64 {
	h := s.NameGraph(g, s.Objects.Parent(node))
	if _, ok := s.Objects.Lookup(object.GraphNode, node); ok && h != 0 {
		s.inNode(node, h)
	}
	return h
}

// inNode notes that a graph ends with a node.
func (s *Graphs) inNode(node, graph uint64) {
	if !slices.Contains(s.inner[node], graph) {
		s.inner[node] = append(s.inner[node], graph)
	}
}

// NameGraphNode gives a node its handle. of is its graph, or another node of its graph; otherwise
// its graph was named just before.
func (s *Graphs) NameGraphNode(n gpubackend.GraphNode, of uint64) uint64 {
	if n == 0 {
		return 0
	}
	if h := s.node[n]; h != 0 {
		if _, ok := s.Objects.Lookup(object.GraphNode, h); ok {
			s.recentNode = h
			return h
		}
	}
	parent := of
	if _, ok := s.Objects.Lookup(object.GraphNode, of); ok {
		parent = s.Objects.Parent(of)
	} else if _, ok := s.Objects.Lookup(object.Graph, of); !ok {
		parent = s.recent
	}
	if !s.room() {
		s.full = true
		return 0
	}
	h := s.Objects.Add(object.GraphNode, uint64(n), parent)
	s.node[n], s.recentNode = h, h
	return h
}

// NameGraphNodes puts handles into the guest's buffer, as many as fit, and returns how many there
// are.
func (s *Graphs) NameGraphNodes(to []byte, nodes []gpubackend.GraphNode, of uint64) uint64 {
	for i, n := range nodes[:min(len(nodes), len(to)/8)] {
		binary.LittleEndian.PutUint64(to[8*i:], s.NameGraphNode(n, of))
	}
	return uint64(len(nodes))
}

// NameGraphs is NameGraphNodes for the bodies of the node of a graph that was named just before.
func (s *Graphs) NameGraphs(to []byte, graphs []gpubackend.Graph, of uint64) uint64 {
	for i, g := range graphs[:min(len(graphs), len(to)/8)] {
		h := s.NameGraph(g, of)
		binary.LittleEndian.PutUint64(to[8*i:], h)
		if h != 0 {
			s.inNode(s.recentNode, h)
		}
	}
	return uint64(len(graphs))
}

// ForgetGraph forgets a graph and its nodes. The driver may now reuse its own handles of them.
func (s *Graphs) ForgetGraph(handle uint64) {
	s.Objects.Remove(handle)
	s.sweepGraphs()
}

// ForgetGraphNode forgets a node.
func (s *Graphs) ForgetGraphNode(handle uint64) {
	native, _ := s.Objects.Lookup(object.GraphNode, handle)
	delete(s.node, gpubackend.GraphNode(native))
	s.Objects.Remove(handle)
	if len(s.inner[handle]) > 0 {
		s.sweepGraphs()
	}
}

// sweepInner removes the graphs in nodes that are gone, which may have such nodes, too.
func (s *Graphs) sweepInner() {
	for again := true; again; {
		again = false
		for n, graphs := range s.inner {
			if _, ok := s.Objects.Lookup(object.GraphNode, n); !ok {
				delete(s.inner, n)
				for _, g := range graphs {
					s.Objects.Remove(g)
				}
				again = true
			}
		}
	}
}

// sweepGraphs drops the names of graphs and nodes that are gone.
func (s *Graphs) sweepGraphs() {
	s.sweepInner()
	for g, h := range s.graph {
		if _, ok := s.Objects.Lookup(object.Graph, h); !ok {
			delete(s.graph, g)
		}
	}
	for n, h := range s.node {
		if _, ok := s.Objects.Lookup(object.GraphNode, h); !ok {
			delete(s.node, n)
		}
	}
}

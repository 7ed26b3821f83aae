// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// GraphGetNodes implements gpubackend.Driver.
func (x *Graphs) GraphGetNodes(h gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result) {
	g, result := x.Find(h)
	if result != gpubackend.Success {
		return nil, result
	}
	return HandlesOf(g.Nodes), gpubackend.Success
}

// GraphGetRootNodes implements gpubackend.Driver.
func (x *Graphs) GraphGetRootNodes(
	h gpubackend.Graph,
) (list []gpubackend.GraphNode, result gpubackend.Result) {
	g, result := x.Find(h)
	if result != gpubackend.Success {
		return nil, result
	}
	for _, n := range g.Nodes {
		if len(n.After) == 0 {
			list = append(list, gpubackend.GraphNode(n.Handle))
		}
	}
	return list, gpubackend.Success
}

// GraphGetEdges implements gpubackend.Driver. All edges are ordinary ones.
func (x *Graphs) GraphGetEdges(
	h gpubackend.Graph, edges []byte,
) (from, to []gpubackend.GraphNode, result gpubackend.Result) {
	clear(edges)
	g, result := x.Find(h)
	if result != gpubackend.Success {
		return nil, nil, result
	}
	for _, n := range g.Nodes {
		for _, b := range n.After {
			from = append(from, gpubackend.GraphNode(b.Handle))
			to = append(to, gpubackend.GraphNode(n.Handle))
		}
	}
	return from, to, gpubackend.Success
}

// GraphNodeGetDependencies implements gpubackend.Driver.
func (x *Graphs) GraphNodeGetDependencies(
	h gpubackend.GraphNode, edges []byte,
) ([]gpubackend.GraphNode, gpubackend.Result) {
	clear(edges)
	n, result := x.FindNode(h)
	if result != gpubackend.Success {
		return nil, result
	}
	return HandlesOf(n.After), gpubackend.Success
}

// GraphNodeGetDependentNodes implements gpubackend.Driver.
func (x *Graphs) GraphNodeGetDependentNodes(
	h gpubackend.GraphNode, edges []byte,
) (list []gpubackend.GraphNode, result gpubackend.Result) {
	clear(edges)
	n, result := x.FindNode(h)
	if result != gpubackend.Success {
		return nil, result
	}
	for _, m := range n.graph.Nodes {
		if slices.Contains(m.After, n) {
			list = append(list, gpubackend.GraphNode(m.Handle))
		}
	}
	return list, gpubackend.Success
}

// GraphAddDependencies implements gpubackend.Driver. A cycle is found when the graph is
// instantiated.
func (x *Graphs) GraphAddDependencies(
	h gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	if !PlainEdges(edges) {
		return gpubackend.NotSupported
	}
	list, result := x.edges(h, from, to, false)
	if result == gpubackend.Success {
		result = x.Charge(edgeBytes * len(list))
	}
	if result != gpubackend.Success {
		return result
	}
	for _, e := range list {
		e.to.After = append(e.to.After, e.from)
	}
	return gpubackend.Success
}

// GraphRemoveDependencies implements gpubackend.Driver.
func (x *Graphs) GraphRemoveDependencies(
	h gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	if !PlainEdges(edges) {
		return gpubackend.InvalidValue // there are none with data
	}
	list, result := x.edges(h, from, to, true)
	if result != gpubackend.Success {
		return result
	}
	if len(list) > 0 && list[0].to.graph.HasMemory() {
		return gpubackend.NotSupported
	}
	for _, e := range list {
		e.to.After = slices.DeleteFunc(e.to.After, func(n *Node) bool { return n == e.from })
	}
	x.Discharge(edgeBytes * len(list))
	return gpubackend.Success
}

// edge is one node after another.
type edge struct{ from, to *Node }

// edges finds edges between nodes of a graph, each one once, all of which are there already, or
// none.
func (x *Graphs) edges(
	h gpubackend.Graph, from, to []gpubackend.GraphNode, there bool,
) ([]edge, gpubackend.Result) {
	g, result := x.Find(h)
	if result != gpubackend.Success || len(from) != len(to) {
		return nil, gpubackend.InvalidValue
	}
	list := make([]edge, 0, len(from))
	seen := make(map[edge]struct{}, len(from))
	for i := range from {
		a, result := x.FindNode(from[i])
		if result != gpubackend.Success {
			return nil, result
		}
		b, result := x.FindNode(to[i])
		if result != gpubackend.Success || a == b || a.graph != g || b.graph != g {
			return nil, gpubackend.InvalidValue
		}
		e := edge{a, b}
		if _, twice := seen[e]; twice || slices.Contains(b.After, a) != there {
			return nil, gpubackend.InvalidValue
		}
		seen[e] = struct{}{}
		list = append(list, e)
	}
	return list, gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// GraphGetNodes implements gpubackend.Driver.
func (d *Device) GraphGetNodes(h gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result) {
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return nil, result
	}
	return handlesOf(g.nodes), gpubackend.Success
}

// GraphGetRootNodes implements gpubackend.Driver.
func (d *Device) GraphGetRootNodes(h gpubackend.Graph) (list []gpubackend.GraphNode, result gpubackend.Result) {
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return nil, result
	}
	for _, n := range g.nodes {
		if len(n.after) == 0 {
			list = append(list, gpubackend.GraphNode(n.handle))
		}
	}
	return list, gpubackend.Success
}

// GraphGetEdges implements gpubackend.Driver. All edges are ordinary ones.
func (d *Device) GraphGetEdges(h gpubackend.Graph, edges []byte) (from, to []gpubackend.GraphNode, result gpubackend.Result) {
	clear(edges)
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return nil, nil, result
	}
	for _, n := range g.nodes {
		for _, b := range n.after {
			from = append(from, gpubackend.GraphNode(b.handle))
			to = append(to, gpubackend.GraphNode(n.handle))
		}
	}
	return from, to, gpubackend.Success
}

// GraphNodeGetDependencies implements gpubackend.Driver.
func (d *Device) GraphNodeGetDependencies(h gpubackend.GraphNode, edges []byte) ([]gpubackend.GraphNode, gpubackend.Result) {
	clear(edges)
	n, result := d.node(h)
	if result != gpubackend.Success {
		return nil, result
	}
	return handlesOf(n.after), gpubackend.Success
}

// GraphNodeGetDependentNodes implements gpubackend.Driver.
func (d *Device) GraphNodeGetDependentNodes(
	h gpubackend.GraphNode, edges []byte,
) (list []gpubackend.GraphNode, result gpubackend.Result) {
	clear(edges)
	n, result := d.node(h)
	if result != gpubackend.Success {
		return nil, result
	}
	for _, m := range n.graph.nodes {
		if slices.Contains(m.after, n) {
			list = append(list, gpubackend.GraphNode(m.handle))
		}
	}
	return list, gpubackend.Success
}

// GraphAddDependencies implements gpubackend.Driver. A cycle is found when the graph is instantiated.
func (d *Device) GraphAddDependencies(h gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte) gpubackend.Result {
	if !plainEdges(edges) {
		return gpubackend.NotSupported
	}
	list, result := d.edges(h, from, to, false)
	if result == gpubackend.Success {
		result = d.charge(edgeBytes * len(list))
	}
	if result != gpubackend.Success {
		return result
	}
	for _, e := range list {
		e.to.after = append(e.to.after, e.from)
	}
	return gpubackend.Success
}

// GraphRemoveDependencies implements gpubackend.Driver.
func (d *Device) GraphRemoveDependencies(h gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte) gpubackend.Result {
	if !plainEdges(edges) {
		return gpubackend.InvalidValue // there are none with data
	}
	list, result := d.edges(h, from, to, true)
	if result != gpubackend.Success {
		return result
	}
	if len(list) > 0 && list[0].to.graph.hasMemory() {
		return gpubackend.NotSupported
	}
	for _, e := range list {
		e.to.after = slices.DeleteFunc(e.to.after, func(n *node) bool { return n == e.from })
	}
	d.discharge(edgeBytes * len(list))
	return gpubackend.Success
}

// edge is one node after another.
type edge struct{ from, to *node }

// edges finds edges between nodes of a graph, each one once, all of which are there already, or none.
func (d *Device) edges(h gpubackend.Graph, from, to []gpubackend.GraphNode, there bool) ([]edge, gpubackend.Result) {
	g, result := d.graph(h)
	if result != gpubackend.Success || len(from) != len(to) {
		return nil, gpubackend.InvalidValue
	}
	list := make([]edge, 0, len(from))
	seen := make(map[edge]struct{}, len(from))
	for i := range from {
		a, result := d.node(from[i])
		if result != gpubackend.Success {
			return nil, result
		}
		b, result := d.node(to[i])
		if result != gpubackend.Success || a == b || a.graph != g || b.graph != g {
			return nil, gpubackend.InvalidValue
		}
		e := edge{a, b}
		if _, twice := seen[e]; twice || slices.Contains(b.after, a) != there {
			return nil, gpubackend.InvalidValue
		}
		seen[e] = struct{}{}
		list = append(list, e)
	}
	return list, gpubackend.Success
}

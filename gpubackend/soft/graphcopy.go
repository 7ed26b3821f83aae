// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// GraphClone implements gpubackend.Driver.
func (d *Device) GraphClone(h gpubackend.Graph) (gpubackend.Graph, gpubackend.Result) {
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return 0, result
	}
	clone, result := d.copyGraph(g, true)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Graph(clone.handle), gpubackend.Success
}

// copyGraph copies a graph with the graphs in it. Named copies have handles and may not allocate memory or have
// conditional nodes (CUDA driver API, cuGraphClone); the others are parts of executable graphs.
func (d *Device) copyGraph(g *graph, named bool) (*graph, gpubackend.Result) {
	if named && (g.hasMemory() || g.hasConditional()) {
		return nil, gpubackend.NotSupported
	}
	if result := d.charge(g.bytes()); result != gpubackend.Success {
		return nil, result
	}
	return d.copyCharged(g, named), gpubackend.Success
}

func (d *Device) copyCharged(g *graph, named bool) *graph {
	c := &graph{nodes: make([]*node, 0, len(g.nodes))}
	if named {
		c.handle = d.handles.Add(c)
	}
	copies := make(map[*node]*node, len(g.nodes))
	for _, n := range g.nodes {
		m := &node{graph: c, ctx: n.ctx, what: n.what, memory: n.memory, origin: n}
		if m.memory != nil {
			m.memory.users++
		}
		for _, inner := range n.inner {
			copied := d.copyCharged(inner, named)
			m.inner, copied.owner = append(m.inner, copied), m
		}
		if n.what.Type == gpubackend.NodeGraph {
			m.what.Child = gpubackend.Graph(m.inner[0].handle)
		}
		if m.condition = n.condition; m.condition != nil {
			d.conditions.hold(m.condition)
		}
		if named {
			m.handle = d.handles.Add(m)
		}
		copies[n] = m
		c.nodes = append(c.nodes, m)
	}
	for _, n := range g.nodes {
		m := copies[n]
		m.after = make([]*node, 0, len(n.after))
		for _, b := range n.after {
			m.after = append(m.after, copies[b])
		}
	}
	return c
}

// GraphNodeFindInClone implements gpubackend.Driver.
func (d *Device) GraphNodeFindInClone(h gpubackend.GraphNode, clone gpubackend.Graph) (gpubackend.GraphNode, gpubackend.Result) {
	n, result := d.node(h)
	if result != gpubackend.Success {
		return 0, result
	}
	g, result := d.graph(clone)
	if result != gpubackend.Success {
		return 0, result
	}
	for _, m := range g.nodes {
		if m.origin == n {
			return gpubackend.GraphNode(m.handle), gpubackend.Success
		}
	}
	return 0, gpubackend.InvalidValue
}

// SPDX-License-Identifier: Apache-2.0

package graphs

import "github.com/paracuda/paracuda/gpubackend"

// GraphClone implements gpubackend.Driver.
func (x *Graphs) GraphClone(h gpubackend.Graph) (gpubackend.Graph, gpubackend.Result) {
	g, result := x.Find(h)
	if result != gpubackend.Success {
		return 0, result
	}
	clone, result := x.CopyGraph(g, true)
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Graph(clone.Handle), gpubackend.Success
}

// CopyGraph copies a graph with the graphs in it. Named copies have handles and may not allocate
// memory or have conditional nodes (CUDA driver API, cuGraphClone); the others are parts of
// executable graphs.
func (x *Graphs) CopyGraph(g *Graph, named bool) (*Graph, gpubackend.Result) {
	if named && (g.HasMemory() || g.hasConditional()) {
		return nil, gpubackend.NotSupported
	}
	if result := x.Charge(g.Bytes()); result != gpubackend.Success {
		return nil, result
	}
	return x.copyCharged(g, named), gpubackend.Success
}

func (x *Graphs) copyCharged(g *Graph, named bool) *Graph {
	c := &Graph{Nodes: make([]*Node, 0, len(g.Nodes))}
	if named {
		c.Handle = x.options.Handles.Add(c)
	}
	copies := make(map[*Node]*Node, len(g.Nodes))
	for _, n := range g.Nodes {
		m := &Node{graph: c, Context: n.Context, What: n.What, Memory: n.Memory, Origin: n}
		if m.Memory != nil {
			m.Memory.users++
		}
		for _, inner := range n.Inner {
			copied := x.copyCharged(inner, named)
			m.Inner, copied.Owner = append(m.Inner, copied), m
		}
		if n.What.Type == gpubackend.NodeGraph {
			m.What.Child = gpubackend.Graph(m.Inner[0].Handle)
		}
		if m.Condition = n.Condition; m.Condition != nil {
			x.conditions.hold(m.Condition)
		}
		if named {
			m.Handle = x.options.Handles.Add(m)
		}
		copies[n] = m
		c.Nodes = append(c.Nodes, m)
	}
	for _, n := range g.Nodes {
		m := copies[n]
		m.After = make([]*Node, 0, len(n.After))
		for _, b := range n.After {
			m.After = append(m.After, copies[b])
		}
	}
	return c
}

// GraphNodeFindInClone implements gpubackend.Driver.
func (x *Graphs) GraphNodeFindInClone(
	h gpubackend.GraphNode, clone gpubackend.Graph,
) (gpubackend.GraphNode, gpubackend.Result) {
	n, result := x.FindNode(h)
	if result != gpubackend.Success {
		return 0, result
	}
	g, result := x.Find(clone)
	if result != gpubackend.Success {
		return 0, result
	}
	for _, m := range g.Nodes {
		if m.Origin == n {
			return gpubackend.GraphNode(m.Handle), gpubackend.Success
		}
	}
	return 0, gpubackend.InvalidValue
}

// SPDX-License-Identifier: Apache-2.0

package exec

import "github.com/paracuda/paracuda/gpubackend"

// Changing is called before a graph is changed.
func (x *Exec) Changing(g gpubackend.Graph) {
	if s := x.sources[g]; s != nil {
		x.part(s)
	}
}

// changingNode is called before a node is changed. The driver doesn't tell whose it is.
func (x *Exec) changingNode(n gpubackend.GraphNode) {
	for _, s := range x.sources {
		if s.still != nil && x.has(s.still, n) {
			x.part(s)
		}
	}
}

// has says whether a node is in an edition; true if that can't be found out.
func (x *Exec) has(s *edition, n gpubackend.GraphNode) bool {
	if s.has == nil {
		list, r := x.calls.GraphGetNodes(s.graph)
		if r != gpubackend.Success {
			return true
		}
		s.has = make(map[gpubackend.GraphNode]struct{}, len(list))
		for _, m := range list {
			s.has[m] = struct{}{}
		}
	}
	_, ok := s.has[n]
	return ok
}

// tell is called when the guest gets, or keeps, a handle of a graph in a graph. Changes of that
// aren't noticed here, so from now on each edition is a copy from the start.
func (x *Exec) tell() {
	if !x.inner {
		x.inner = true
		for _, s := range x.sources {
			x.part(s)
		}
	}
}

// GraphDestroy destroys a graph, or keeps it if it is what an executable graph does.
func (x *Exec) GraphDestroy(g gpubackend.Graph) gpubackend.Result {
	x.forgetClones(g)
	delete(x.conditions, g)
	s := x.sources[g]
	if s == nil {
		return x.calls.GraphDestroy(g)
	}
	delete(x.sources, g)
	for e := range s.execs {
		e.orphan = true
		if len(e.disabled) == 0 { // else these are known by their names
			x.release(e.made)
			e.made = nil
		}
	}
	if s.still == nil {
		return x.calls.GraphDestroy(g)
	}
	s.still.of, s.still = nil, nil
	return gpubackend.Success
}

// forgetClones forgets of which graph a graph is a copy, and which ones are copies of it.
func (x *Exec) forgetClones(g gpubackend.Graph) {
	delete(x.clones, g)
	delete(x.origins, g)
	for c, of := range x.clones {
		if of == g {
			delete(x.clones, c)
			delete(x.origins, c)
		}
	}
}

// GraphClone copies a graph.
func (x *Exec) GraphClone(g gpubackend.Graph) (gpubackend.Graph, gpubackend.Result) {
	c, r := x.calls.GraphClone(g)
	if r == gpubackend.Success {
		x.clones[c] = g
	}
	return c, r
}

// GraphNodeFindInClone finds a node in a copy.
func (x *Exec) GraphNodeFindInClone(
	n gpubackend.GraphNode, clone gpubackend.Graph,
) (gpubackend.GraphNode, gpubackend.Result) {
	if at, ok := x.origins[clone]; ok {
		if there, ok := at[n]; ok {
			return there, gpubackend.Success
		}
		return 0, gpubackend.InvalidValue
	}
	return x.calls.GraphNodeFindInClone(n, clone)
}

// GraphConditionalHandle makes a condition.
func (x *Exec) GraphConditionalHandle(
	g gpubackend.Graph, value, flags uint64,
) (uint64, gpubackend.Result) {
	h, r := x.Graphs.GraphConditionalHandle(g, value, flags)
	if r == gpubackend.Success {
		x.conditions[g]++
	}
	return h, r
}

// GraphAddNode adds a node.
func (x *Exec) GraphAddNode(
	g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, n *gpubackend.Node,
) (
	node gpubackend.GraphNode, address uint64, bodies []gpubackend.Graph, r gpubackend.Result,
) {
	x.Changing(g)
	if n.Type == gpubackend.NodeGraph && n.Moved {
		x.tell()
	}
	return x.Graphs.GraphAddNode(g, after, edges, n)
}

// GraphNodeSet changes a node.
func (x *Exec) GraphNodeSet(node gpubackend.GraphNode, n *gpubackend.Node) gpubackend.Result {
	x.changingNode(node)
	return x.Graphs.GraphNodeSet(node, n)
}

// GraphNodeGet reads a node.
func (x *Exec) GraphNodeGet(node gpubackend.GraphNode) (*gpubackend.Node, gpubackend.Result) {
	n, r := x.Graphs.GraphNodeGet(node)
	if r == gpubackend.Success && n.Type == gpubackend.NodeGraph {
		x.tell()
	}
	return n, r
}

// GraphDestroyNode removes a node.
func (x *Exec) GraphDestroyNode(n gpubackend.GraphNode) gpubackend.Result {
	x.changingNode(n)
	return x.calls.GraphDestroyNode(n)
}

// GraphAddDependencies adds edges.
func (x *Exec) GraphAddDependencies(
	g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	x.Changing(g)
	return x.calls.GraphAddDependencies(g, from, to, edges)
}

// GraphRemoveDependencies removes edges.
func (x *Exec) GraphRemoveDependencies(
	g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	x.Changing(g)
	return x.calls.GraphRemoveDependencies(g, from, to, edges)
}

// GraphKernelNodeSetAttribute changes an attribute of a node.
func (x *Exec) GraphKernelNodeSetAttribute(
	n gpubackend.GraphNode, id uint64, value []byte,
) gpubackend.Result {
	x.changingNode(n)
	return x.calls.GraphKernelNodeSetAttribute(n, id, value)
}

// GraphKernelNodeCopyAttributes does so with all attributes.
func (x *Exec) GraphKernelNodeCopyAttributes(dst, src gpubackend.GraphNode) gpubackend.Result {
	x.changingNode(dst)
	return x.calls.GraphKernelNodeCopyAttributes(dst, src)
}

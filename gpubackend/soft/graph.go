// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
)

// graph is a CUgraph: nodes in the order in which they were added.
type graph struct {
	handle    uint64 // 0 within an executable graph
	nodes     []*node
	owner     *node // the node that it lies in
	capturing int   // captures that add to it
	instances int   // executable graphs made of it, counted where it allocates memory

	conditions []*condition // handles that were made for it
}

// node is a CUgraphNode. What it does is replaced as a whole, never changed in place: work that is queued keeps what
// it was made of.
type node struct {
	handle uint64
	graph  *graph
	ctx    *contexts.Context
	what   gpubackend.Node
	inner  []*graph     // child graph, or the bodies of a conditional node
	memory *graphMemory // of an allocation
	after  []*node      // what it comes after
	origin *node        // what it is a copy of

	condition *condition // of a conditional node
}

// anyInner says whether something holds for a graph in the node.
func (n *node) anyInner(holds func(*graph) bool) bool { return slices.ContainsFunc(n.inner, holds) }

func (d *Device) graph(h gpubackend.Graph) (*graph, gpubackend.Result) {
	g, ok := handles.Find[*graph](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidValue
	}
	return g, gpubackend.Success
}

func (d *Device) node(h gpubackend.GraphNode) (*node, gpubackend.Result) {
	n, ok := handles.Find[*node](d.handles, uint64(h))
	if !ok {
		return nil, gpubackend.InvalidValue
	}
	return n, gpubackend.Success
}

// nodes finds different nodes of a graph.
func (d *Device) nodes(g *graph, list []gpubackend.GraphNode) ([]*node, gpubackend.Result) {
	nodes := make([]*node, 0, len(list))
	seen := make(map[*node]struct{}, len(list))
	for _, h := range list {
		n, result := d.node(h)
		if _, twice := seen[n]; result != gpubackend.Success || n.graph != g || twice {
			return nil, gpubackend.InvalidValue
		}
		seen[n] = struct{}{}
		nodes = append(nodes, n)
	}
	return nodes, gpubackend.Success
}

func handlesOf(nodes []*node) []gpubackend.GraphNode {
	list := make([]gpubackend.GraphNode, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, gpubackend.GraphNode(n.handle))
	}
	return list
}

// plainEdges says whether all edges are ordinary ones: CUgraphEdgeData of zeros.
func plainEdges(edges []byte) bool {
	return !slices.ContainsFunc(edges, func(b byte) bool { return b != 0 })
}

// newGraph makes an empty graph that has a handle.
func (d *Device) newGraph() (*graph, gpubackend.Result) {
	if result := d.charge(graphBytes); result != gpubackend.Success {
		return nil, result
	}
	g := &graph{}
	g.handle = d.handles.Add(g)
	return g, gpubackend.Success
}

// dropGraph forgets a graph, its nodes and their graphs.
func (d *Device) dropGraph(g *graph) {
	for _, n := range g.nodes {
		d.dropNode(n)
	}
	for _, x := range g.conditions {
		d.conditions.release(x)
	}
	d.discharge(graphBytes + conditionBytes*len(g.conditions))
	g.nodes, g.conditions = nil, nil
	d.handles.Remove(g.handle)
}

// dropNode forgets a node. What it refers to goes with it, even where copies remember that they are its copies.
func (d *Device) dropNode(n *node) {
	for _, g := range n.inner {
		d.dropGraph(g)
	}
	if n.condition != nil {
		if n.condition.node == n {
			n.condition.node = nil
		}
		d.conditions.release(n.condition)
	}
	if n.memory != nil {
		d.releaseGraphMemory(n.memory)
	}
	d.discharge(n.bytes())
	d.handles.Remove(n.handle)
	n.what, n.inner, n.memory, n.after, n.origin, n.condition = gpubackend.Node{}, nil, nil, nil, nil, nil
}

// GraphCreate implements gpubackend.Driver.
func (d *Device) GraphCreate(flags uint64) (gpubackend.Graph, gpubackend.Result) {
	if flags != 0 {
		return 0, gpubackend.InvalidValue
	}
	g, result := d.newGraph()
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Graph(g.handle), gpubackend.Success
}

// GraphDestroy implements gpubackend.Driver. A child graph goes with its node.
func (d *Device) GraphDestroy(h gpubackend.Graph) gpubackend.Result {
	g, result := d.graph(h)
	if result != gpubackend.Success || g.owner != nil || g.busy() {
		return gpubackend.InvalidValue
	}
	d.dropGraph(g)
	return gpubackend.Success
}

// busy says whether a capture adds to the graph or to a graph in it.
func (g *graph) busy() bool {
	return g.capturing > 0 ||
		slices.ContainsFunc(g.nodes, func(n *node) bool { return n.anyInner((*graph).busy) })
}

// GraphAddNode implements gpubackend.Driver.
func (d *Device) GraphAddNode(
	h gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, what *gpubackend.Node,
) (gpubackend.GraphNode, uint64, []gpubackend.Graph, gpubackend.Result) {
	c, result := d.Current()
	if result == gpubackend.Success && what.Type == gpubackend.NodeGraph {
		result = d.checkChild(what) // before all else, as driver 580 does
	}
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	nodes, result := d.nodes(g, after)
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	if !plainEdges(edges) {
		return 0, 0, nil, gpubackend.NotSupported
	}
	n, result := d.addNode(c, g, nodes, what)
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	var bodies []gpubackend.Graph
	if n.condition != nil {
		for _, b := range n.inner {
			bodies = append(bodies, gpubackend.Graph(b.handle))
		}
	}
	return gpubackend.GraphNode(n.handle), n.what.Address, bodies, gpubackend.Success
}

// addNode adds a node of a context after others of its graph.
func (d *Device) addNode(c *contexts.Context, g *graph, after []*node, what *gpubackend.Node) (*node, gpubackend.Result) {
	if result := d.checkNode(what); result != gpubackend.Success {
		return nil, result
	}
	n := &node{graph: g, ctx: c, what: detached(what), after: slices.Clone(after)}
	if result := d.charge(n.bytes()); result != gpubackend.Success {
		return nil, result
	}
	result := gpubackend.Success
	switch what.Type {
	case gpubackend.NodeGraph:
		result = d.adopt(n, what)
	case gpubackend.NodeMemAlloc:
		result = d.allocateForNode(n)
	case gpubackend.NodeConditional:
		result = d.giveBodies(n)
	}
	if result != gpubackend.Success {
		d.discharge(n.bytes())
		return nil, result
	}
	n.handle = d.handles.Add(n)
	g.nodes = append(g.nodes, n)
	return n, gpubackend.Success
}

// detached returns a node's description with bytes of its own.
func detached(what *gpubackend.Node) gpubackend.Node {
	kept := *what
	kept.Launch.Stream = 0
	kept.Launch.Parameters = slices.Clone(what.Launch.Parameters)
	kept.Launch.Attributes = slices.Clone(what.Launch.Attributes)
	kept.Pool, kept.Access, kept.Ops = slices.Clone(what.Pool), slices.Clone(what.Access), nil
	return kept
}

// checkChild refuses graphs that can't be another's child: those with conditions, and children that are to be copied.
func (d *Device) checkChild(what *gpubackend.Node) gpubackend.Result {
	child, result := d.graph(what.Child)
	if result == gpubackend.Success && (child.hasConditional() || (child.owner != nil && !what.Moved)) {
		return gpubackend.NotSupported
	}
	return result
}

// adopt gives a node its child graph: a copy, or the graph itself.
func (d *Device) adopt(n *node, what *gpubackend.Node) gpubackend.Result {
	child, result := d.graph(what.Child)
	if result != gpubackend.Success {
		return result
	}
	if what.Moved {
		if child.owner != nil || child.busy() || child == n.graph.root() {
			return gpubackend.InvalidValue
		}
	} else if child, result = d.copyGraph(child, true); result != gpubackend.Success {
		return result
	}
	n.inner, child.owner = []*graph{child}, n
	n.what.Child, n.what.Moved = gpubackend.Graph(child.handle), false
	return gpubackend.Success
}

// root is the graph that the graph lies in, at whatever depth.
func (g *graph) root() *graph {
	for g.owner != nil {
		g = g.owner.graph
	}
	return g
}

// GraphDestroyNode implements gpubackend.Driver. A graph keeps its nodes while a capture adds to it, and where it
// allocates memory.
func (d *Device) GraphDestroyNode(h gpubackend.GraphNode) gpubackend.Result {
	n, result := d.node(h)
	if result != gpubackend.Success {
		return result
	}
	g := n.graph
	if g.capturing > 0 || n.anyInner((*graph).busy) {
		return gpubackend.InvalidValue
	}
	if g.hasMemory() {
		return gpubackend.NotSupported
	}
	g.nodes = slices.DeleteFunc(g.nodes, func(m *node) bool { return m == n })
	for _, m := range g.nodes {
		before := m.bytes()
		m.after = slices.DeleteFunc(m.after, func(b *node) bool { return b == n })
		d.discharge(before - m.bytes())
	}
	d.dropNode(n)
	return gpubackend.Success
}

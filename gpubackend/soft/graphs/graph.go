// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
)

// Options are what a device's graphs are given.
type Options struct {
	Host     *budget.Budget
	Handles  *handles.Table
	Contexts *contexts.Contexts
	Memory   *memory.Memory
	// Check refuses nodes that could not be run, of the types whose work is another room's.
	Check func(*gpubackend.Node) gpubackend.Result
}

// Graphs are the graphs of a device.
type Graphs struct {
	options    Options
	charged    int // bytes that they count for
	conditions conditionTable
	memory     map[uint64]*allocation // by address
	uses       map[int]*use           // by GPU
}

// New returns the graphs of a device, which has none yet.
func New(o Options) *Graphs {
	return &Graphs{options: o, memory: make(map[uint64]*allocation), uses: make(map[int]*use)}
}

// Held is what graphs hold.
type Held struct {
	Bytes       int    // of the host's memory, that they count for
	Allocations int    // of device memory
	Reserved    uint64 // bytes of those
	Conditions  int
}

// Held says what graphs hold now.
func (x *Graphs) Held() Held {
	h := Held{x.charged, len(x.memory), 0, len(x.conditions.all)}
	for _, u := range x.uses {
		h.Reserved += u[cudaabi.GraphMemAttrReservedMemCurrent]
	}
	return h
}

// SetCondition sets a condition, for kernels. It may be called on any goroutine.
func (x *Graphs) SetCondition(handle uint64, value uint32) bool {
	return x.conditions.set(handle, value)
}

// Graph is a CUgraph: nodes in the order in which they were added.
type Graph struct {
	Handle    uint64 // 0 within an executable graph
	Nodes     []*Node
	Owner     *Node // the node that it lies in
	capturing int   // captures that add to it
	Instances int   // executable graphs made of it, counted where it allocates memory

	conditions []*Condition // handles that were made for it
}

// Node is a CUgraphNode. What it does is replaced as a whole, never changed in place: work that is
// queued keeps what it was made of.
type Node struct {
	Handle  uint64
	graph   *Graph
	Context *contexts.Context
	What    gpubackend.Node
	Inner   []*Graph    // child graph, or the bodies of a conditional node
	Memory  *allocation // of an allocation
	After   []*Node     // what it comes after
	Origin  *Node       // what it is a copy of

	Condition *Condition // of a conditional node
}

// anyInner says whether something holds for a graph in the node.
func (n *Node) anyInner(holds func(*Graph) bool) bool { return slices.ContainsFunc(n.Inner, holds) }

// Find returns the graph of a handle.
func (x *Graphs) Find(h gpubackend.Graph) (*Graph, gpubackend.Result) {
	return handles.Of[*Graph](x.options.Handles, uint64(h), gpubackend.InvalidValue)
}

// FindNode returns the node of a handle.
func (x *Graphs) FindNode(h gpubackend.GraphNode) (*Node, gpubackend.Result) {
	return handles.Of[*Node](x.options.Handles, uint64(h), gpubackend.InvalidValue)
}

// FindNodes finds different nodes of a graph.
func (x *Graphs) FindNodes(g *Graph, list []gpubackend.GraphNode) ([]*Node, gpubackend.Result) {
	nodes := make([]*Node, 0, len(list))
	seen := make(map[*Node]struct{}, len(list))
	for _, h := range list {
		n, result := x.FindNode(h)
		if _, twice := seen[n]; result != gpubackend.Success || n.graph != g || twice {
			return nil, gpubackend.InvalidValue
		}
		seen[n] = struct{}{}
		nodes = append(nodes, n)
	}
	return nodes, gpubackend.Success
}

// HandlesOf returns the handles of nodes.
func HandlesOf(nodes []*Node) []gpubackend.GraphNode {
	list := make([]gpubackend.GraphNode, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, gpubackend.GraphNode(n.Handle))
	}
	return list
}

// PlainEdges says whether all edges are ordinary ones: CUgraphEdgeData of zeros.
func PlainEdges(edges []byte) bool {
	return !slices.ContainsFunc(edges, func(b byte) bool { return b != 0 })
}

// Make makes an empty graph that has a handle.
func (x *Graphs) Make() (*Graph, gpubackend.Result) {
	if result := x.Charge(graphBytes); result != gpubackend.Success {
		return nil, result
	}
	g := &Graph{}
	g.Handle = x.options.Handles.Add(g)
	return g, gpubackend.Success
}

// Remove forgets a graph, its nodes and their graphs.
func (x *Graphs) Remove(g *Graph) {
	for _, n := range g.Nodes {
		x.dropNode(n)
	}
	for _, c := range g.conditions {
		x.conditions.release(c)
	}
	x.Discharge(graphBytes + conditionBytes*len(g.conditions))
	g.Nodes, g.conditions = nil, nil
	x.options.Handles.Remove(g.Handle)
}

// dropNode forgets a node, and clears what it refers to: copies still point to it.
func (x *Graphs) dropNode(n *Node) {
	for _, g := range n.Inner {
		x.Remove(g)
	}
	if n.Condition != nil {
		if n.Condition.node == n {
			n.Condition.node = nil
		}
		x.conditions.release(n.Condition)
	}
	if n.Memory != nil {
		x.releaseGraphMemory(n.Memory)
	}
	x.Discharge(n.bytes())
	x.options.Handles.Remove(n.Handle)
	n.What, n.Inner, n.Memory, n.After, n.Origin, n.Condition = gpubackend.Node{}, nil, nil, nil,
		nil, nil
}

// GraphCreate implements gpubackend.Driver.
func (x *Graphs) GraphCreate(flags uint64) (gpubackend.Graph, gpubackend.Result) {
	if flags != 0 {
		return 0, gpubackend.InvalidValue
	}
	g, result := x.Make()
	if result != gpubackend.Success {
		return 0, result
	}
	return gpubackend.Graph(g.Handle), gpubackend.Success
}

// GraphDestroy implements gpubackend.Driver. A child graph goes with its node.
func (x *Graphs) GraphDestroy(h gpubackend.Graph) gpubackend.Result {
	g, result := x.Find(h)
	if result != gpubackend.Success || g.Owner != nil || g.busy() {
		return gpubackend.InvalidValue
	}
	x.Remove(g)
	return gpubackend.Success
}

// BeginCapture notes that a capture adds to the graph.
func (g *Graph) BeginCapture() { g.capturing++ }

// EndCapture notes that the capture has ended.
func (g *Graph) EndCapture() { g.capturing-- }

// busy says whether a capture adds to the graph or to a graph in it.
func (g *Graph) busy() bool {
	return g.capturing > 0 ||
		slices.ContainsFunc(g.Nodes, func(n *Node) bool { return n.anyInner((*Graph).busy) })
}

// GraphAddNode implements gpubackend.Driver.
func (x *Graphs) GraphAddNode(
	h gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, what *gpubackend.Node,
) (gpubackend.GraphNode, uint64, []gpubackend.Graph, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result == gpubackend.Success && what.Type == gpubackend.NodeGraph {
		result = x.checkChild(what) // before all else, as driver 580 does
	}
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	g, result := x.Find(h)
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	nodes, result := x.FindNodes(g, after)
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	if !PlainEdges(edges) {
		return 0, 0, nil, gpubackend.NotSupported
	}
	n, result := x.AddNode(c, g, nodes, what)
	if result != gpubackend.Success {
		return 0, 0, nil, result
	}
	var bodies []gpubackend.Graph
	if n.Condition != nil {
		for _, b := range n.Inner {
			bodies = append(bodies, gpubackend.Graph(b.Handle))
		}
	}
	return gpubackend.GraphNode(n.Handle), n.What.Address, bodies, gpubackend.Success
}

// AddNode adds a node of a context to a graph, after others.
func (x *Graphs) AddNode(
	c *contexts.Context, g *Graph, after []*Node, what *gpubackend.Node,
) (*Node, gpubackend.Result) {
	if result := x.checkNode(what); result != gpubackend.Success {
		return nil, result
	}
	n := &Node{graph: g, Context: c, What: detached(what), After: slices.Clone(after)}
	if result := x.Charge(n.bytes()); result != gpubackend.Success {
		return nil, result
	}
	result := gpubackend.Success
	switch what.Type {
	case gpubackend.NodeGraph:
		result = x.adopt(n, what)
	case gpubackend.NodeMemAlloc:
		result = x.allocateForNode(n)
	case gpubackend.NodeConditional:
		result = x.giveBodies(n)
	}
	if result != gpubackend.Success {
		x.Discharge(n.bytes())
		return nil, result
	}
	n.Handle = x.options.Handles.Add(n)
	g.Nodes = append(g.Nodes, n)
	return n, gpubackend.Success
}

// detached returns a node's description with bytes of its own.
func detached(what *gpubackend.Node) gpubackend.Node {
	kept := *what
	kept.Launch.Stream = 0
	kept.Launch.Parameters = slices.Clone(what.Launch.Parameters)
	kept.Launch.Attributes = slices.Clone(what.Launch.Attributes)
	kept.Pool, kept.Access = slices.Clone(what.Pool), slices.Clone(what.Access)
	kept.Ops = slices.Clone(what.Ops)
	return kept
}

// checkChild refuses graphs that can't be another's child: those with conditions, and children that
// are to be copied.
func (x *Graphs) checkChild(what *gpubackend.Node) gpubackend.Result {
	child, result := x.Find(what.Child)
	if result == gpubackend.Success &&
		(child.hasConditional() || (child.Owner != nil && !what.Moved)) {
		return gpubackend.NotSupported
	}
	return result
}

// adopt gives a node its child graph: a copy, or the graph itself.
func (x *Graphs) adopt(n *Node, what *gpubackend.Node) gpubackend.Result {
	child, result := x.Find(what.Child)
	if result != gpubackend.Success {
		return result
	}
	if what.Moved {
		if child.Owner != nil || child.busy() || child == n.graph.root() {
			return gpubackend.InvalidValue
		}
	} else if child, result = x.CopyGraph(child, true); result != gpubackend.Success {
		return result
	}
	n.Inner, child.Owner = []*Graph{child}, n
	n.What.Child, n.What.Moved = gpubackend.Graph(child.Handle), false
	return gpubackend.Success
}

// root is the graph that the graph lies in, at whatever depth.
func (g *Graph) root() *Graph {
	for g.Owner != nil {
		g = g.Owner.graph
	}
	return g
}

// GraphDestroyNode implements gpubackend.Driver. A graph keeps its nodes while a capture adds to
// it, and where it allocates memory.
func (x *Graphs) GraphDestroyNode(h gpubackend.GraphNode) gpubackend.Result {
	n, result := x.FindNode(h)
	if result != gpubackend.Success {
		return result
	}
	g := n.graph
	if g.capturing > 0 || n.anyInner((*Graph).busy) {
		return gpubackend.InvalidValue
	}
	if g.HasMemory() {
		return gpubackend.NotSupported
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(m *Node) bool { return m == n })
	for _, m := range g.Nodes {
		before := m.bytes()
		m.After = slices.DeleteFunc(m.After, func(b *Node) bool { return b == n })
		x.Discharge(before - m.bytes())
	}
	x.dropNode(n)
	return gpubackend.Success
}

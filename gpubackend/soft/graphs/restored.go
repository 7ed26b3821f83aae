// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Remaking makes graphs again. It knows which nodes were made of which.
type Remaking struct {
	graphs *Graphs
	made   map[gpubackend.GraphNode]*Node // by the handles that they had
	copies map[*Node]gpubackend.GraphNode // what they are copies of, by those handles

	conditions []*Condition                      // each has one user until Done
	of         map[gpubackend.Graph][]*Condition // those of graphs that aren't made yet
}

// Remaking begins to make graphs again, with what they have of conditions and memory. On failure
// nothing is given back, here and later: the device is then of no more use.
func (x *Graphs) Remaking(s *gpubackend.GraphStates) (*Remaking, gpubackend.Result) {
	r := &Remaking{
		x, map[gpubackend.GraphNode]*Node{}, map[*Node]gpubackend.GraphNode{}, nil,
		map[gpubackend.Graph][]*Condition{},
	}
	for i := range s.Memory {
		if result := x.remakeMemory(&s.Memory[i]); result != gpubackend.Success {
			return nil, result
		}
	}
	for _, p := range s.Peaks {
		if result := x.remakePeak(p); result != gpubackend.Success {
			return nil, result
		}
	}
	for i := range s.Conditions {
		c := x.conditions.remake(&s.Conditions[i])
		if c == nil {
			return nil, gpubackend.InvalidValue
		}
		r.conditions = append(r.conditions, c)
		if g := s.Conditions[i].Graph; g != 0 {
			r.of[g] = append(r.of[g], c)
		}
	}
	return r, gpubackend.Success
}

// remakeMemory takes over memory of graphs.
func (x *Graphs) remakeMemory(s *gpubackend.GraphMemory) gpubackend.Result {
	c, _, result := x.options.Contexts.Find(uint64(s.Context))
	if result != gpubackend.Success {
		return result
	}
	gpu, result := x.options.Memory.TakeOther(ledger.Graphs, s.Address, s.Bytes)
	if result != gpubackend.Success {
		return result
	}
	m := &allocation{Context: c, address: s.Address, bytes: s.Bytes, use: x.useOf(gpu)}
	x.memory[s.Address] = m
	m.use.add(cudaabi.GraphMemAttrReservedMemCurrent, m.bytes)
	m.setLive(s.Live)
	return gpubackend.Success
}

func (x *Graphs) remakePeak(p gpubackend.GraphMemoryPeak) gpubackend.Result {
	if result := x.options.Contexts.CheckDevice(p.Device); result != gpubackend.Success {
		return result
	}
	u := x.useOf(int(p.Device))
	if p.Used < u[cudaabi.GraphMemAttrUsedMemCurrent] ||
		p.Reserved < u[cudaabi.GraphMemAttrReservedMemCurrent] {
		return gpubackend.InvalidValue
	}
	u[cudaabi.GraphMemAttrUsedMemHigh], u[cudaabi.GraphMemAttrReservedMemHigh] = p.Used, p.Reserved
	return gpubackend.Success
}

// Graph makes a graph, which may be in a node. If it is named, it and its nodes get new handles,
// which replace the old ones in the state.
func (r *Remaking) Graph(
	s *gpubackend.GraphState, owner *Node, named bool,
) (*Graph, gpubackend.Result) {
	x := r.graphs
	g := &Graph{Owner: owner}
	if named {
		g.conditions = r.of[s.Graph]
		delete(r.of, s.Graph)
	}
	result := x.Charge(graphBytes + conditionBytes*len(g.conditions))
	if result != gpubackend.Success {
		return nil, result
	}
	for _, c := range g.conditions {
		c.graph = g
		x.conditions.hold(c)
	}
	if named {
		g.Handle = x.options.Handles.Add(g)
	}
	for i := range s.Nodes {
		n, result := r.node(g, &s.Nodes[i], named)
		if result != gpubackend.Success {
			return nil, result
		}
		g.Nodes = append(g.Nodes, n)
	}
	for i, n := range g.Nodes {
		if !PlainEdges(s.Nodes[i].Edges) {
			return nil, gpubackend.NotSupported
		}
		for _, b := range s.Nodes[i].After {
			if b < 0 || b >= len(g.Nodes) || b == i || slices.Contains(n.After, g.Nodes[b]) {
				return nil, gpubackend.InvalidValue
			}
			n.After = append(n.After, g.Nodes[b])
		}
	}
	s.Graph = gpubackend.Graph(g.Handle)
	return g, gpubackend.Success
}

func (r *Remaking) node(g *Graph, s *gpubackend.NodeState, named bool) (*Node, gpubackend.Result) {
	x := r.graphs
	c, _, result := x.options.Contexts.Find(uint64(s.Context))
	if result != gpubackend.Success {
		return nil, result
	}
	n := &Node{graph: g, Context: c, What: detached(&s.What)}
	if result := x.Charge(n.bytes() + edgeBytes*len(s.After)); result != gpubackend.Success {
		return nil, result
	}
	if t := s.What.Type; (t == gpubackend.NodeGraph) != (s.Child != nil) ||
		(t == gpubackend.NodeConditional) != (len(s.Bodies) > 0) {
		return nil, gpubackend.InvalidValue
	}
	switch s.What.Type {
	case gpubackend.NodeGraph, gpubackend.NodeConditional:
		result = r.inner(n, s, named)
	case gpubackend.NodeMemAlloc:
		result = x.shareMemory(n)
	default:
		result = x.checkNode(&n.What)
	}
	if result != gpubackend.Success {
		return nil, result
	}
	if s.Origin != 0 {
		r.copies[n] = s.Origin
	}
	if named {
		n.Handle = x.options.Handles.Add(n)
		if r.made[s.Node] != nil {
			return nil, gpubackend.InvalidValue
		}
		r.made[s.Node] = n
		s.Node = gpubackend.GraphNode(n.Handle)
	}
	return n, gpubackend.Success
}

// inner makes the graphs in a node.
func (r *Remaking) inner(n *Node, s *gpubackend.NodeState, named bool) gpubackend.Result {
	if s.Child == nil {
		if result := r.condition(n, s, named); result != gpubackend.Success {
			return result
		}
	}
	for _, state := range s.Inner() {
		g, result := r.Graph(state, n, named)
		if result != gpubackend.Success {
			return result
		}
		n.Inner = append(n.Inner, g)
	}
	if s.Child != nil {
		n.What.Child, n.What.Moved = gpubackend.Graph(n.Inner[0].Handle), false
	}
	return gpubackend.Success
}

// condition gives a conditional node its condition. Parts of executable graphs share it with the
// graph of which they are copies.
func (r *Remaking) condition(n *Node, s *gpubackend.NodeState, named bool) gpubackend.Result {
	c := r.graphs.conditions.find(n.What.Handle)
	if c == nil || uint64(len(s.Bodies)) != n.What.Bodies ||
		n.What.Bodies > mostBodies[n.What.Kind] {
		return gpubackend.InvalidValue
	}
	if named {
		if c.node != nil || !c.suits(n.graph) {
			return gpubackend.InvalidValue
		}
		c.node = n
	}
	n.Condition = c
	r.graphs.conditions.hold(c)
	return gpubackend.Success
}

// shareMemory gives an allocation node the memory at its address.
func (x *Graphs) shareMemory(n *Node) gpubackend.Result {
	m := x.memory[n.What.Address]
	if m == nil || m.bytes != n.What.Bytes || m.Context != n.Context {
		return gpubackend.InvalidValue
	}
	m.users++
	n.Memory = m
	return gpubackend.Success
}

// Done tells nodes what they are copies of. No condition and no memory may be left that nobody has.
func (r *Remaking) Done() gpubackend.Result {
	for n, of := range r.copies {
		if n.Origin = r.made[of]; n.Origin == nil || n.Origin == n {
			return gpubackend.InvalidValue
		}
	}
	x := r.graphs
	for _, c := range r.conditions {
		x.conditions.release(c)
	}
	if len(r.of) > 0 || len(x.conditions.all) != len(r.conditions) {
		return gpubackend.InvalidValue
	}
	for _, m := range x.memory {
		if m.users == 0 && !m.live {
			return gpubackend.InvalidValue
		}
	}
	return gpubackend.Success
}

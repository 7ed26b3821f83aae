// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"errors"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// Why graphs can't be made again.
var (
	errCaptured = errors.New("a stream is captured into a graph")
	errKind     = errors.New("a graph allocates memory or has conditions")
	errGone     = errors.New("a graph names memory, a function or an event that is gone")
)

// FixedGraphs implements gpubackend.SavingGraphs: memory that graphs allocate, and conditions.
func (x *Graphs) FixedGraphs() int {
	x.conditions.mu.RLock()
	defer x.conditions.mu.RUnlock()
	return len(x.memory) + len(x.conditions.all)
}

// States are what graphs are.
func (x *Graphs) States(graphs []gpubackend.Graph) (list []gpubackend.GraphState, err error) {
	for _, h := range graphs {
		g, result := x.Find(h)
		if result != gpubackend.Success {
			return nil, result.Err()
		}
		if g.busy() {
			return nil, errCaptured
		}
		s, err := x.State(g)
		if err != nil {
			return nil, err
		}
		list = append(list, *s)
	}
	return list, nil
}

// State is one graph.
func (x *Graphs) State(g *Graph) (*gpubackend.GraphState, error) {
	s := &gpubackend.GraphState{Graph: gpubackend.Graph(g.Handle)}
	if len(g.conditions) > 0 {
		return nil, errKind
	}
	at := make(map[*Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		at[n] = i
	}
	for _, n := range g.Nodes {
		m, err := x.nodeState(n)
		if err != nil {
			return nil, err
		}
		for _, b := range n.After {
			m.After = append(m.After, at[b])
		}
		s.Nodes = append(s.Nodes, m)
	}
	return s, nil
}

func (x *Graphs) nodeState(n *Node) (s gpubackend.NodeState, err error) {
	s = gpubackend.NodeState{
		Node: gpubackend.GraphNode(n.Handle), Context: n.Context.Handle(), What: n.What,
	}
	if o := n.Origin; o != nil {
		if there, _ := x.FindNode(gpubackend.GraphNode(o.Handle)); there == o {
			s.Origin = gpubackend.GraphNode(o.Handle)
		}
	}
	switch n.What.Type {
	case gpubackend.NodeMemAlloc, gpubackend.NodeMemFree, gpubackend.NodeConditional:
		return s, errKind
	case gpubackend.NodeGraph:
		s.Child, err = x.State(n.Inner[0])
	default:
		if x.checkNode(&n.What) != gpubackend.Success {
			err = errGone
		}
	}
	return s, err
}

// Remaking makes graphs again. It knows which nodes were made of which.
type Remaking struct {
	graphs *Graphs
	made   map[gpubackend.GraphNode]*Node // by the handles that they had
	copies map[*Node]gpubackend.GraphNode // what they are copies of, by those handles
}

// Remaking begins to make graphs again.
func (x *Graphs) Remaking() *Remaking {
	return &Remaking{x, map[gpubackend.GraphNode]*Node{}, map[*Node]gpubackend.GraphNode{}}
}

// Graph makes a graph. If it is named, it and its nodes get new handles, which replace the old ones
// in the state. On failure nothing is given back: the device is then of no more use.
func (r *Remaking) Graph(s *gpubackend.GraphState, named bool) (*Graph, gpubackend.Result) {
	x := r.graphs
	if result := x.Charge(graphBytes); result != gpubackend.Success {
		return nil, result
	}
	g := &Graph{}
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
	switch t := s.What.Type; {
	case (t == gpubackend.NodeGraph) != (s.Child != nil):
		return nil, gpubackend.InvalidValue
	case t == gpubackend.NodeMemAlloc, t == gpubackend.NodeMemFree, t == gpubackend.NodeConditional:
		return nil, gpubackend.NotSupported
	case t == gpubackend.NodeGraph:
		child, result := r.Graph(s.Child, named)
		if result != gpubackend.Success {
			return nil, result
		}
		n.Inner, child.Owner = []*Graph{child}, n
		n.What.Child, n.What.Moved = gpubackend.Graph(child.Handle), false
	default:
		if result := x.checkNode(&n.What); result != gpubackend.Success {
			return nil, result
		}
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

// Done tells nodes what they are copies of.
func (r *Remaking) Done() gpubackend.Result {
	for n, of := range r.copies {
		if n.Origin = r.made[of]; n.Origin == nil || n.Origin == n {
			return gpubackend.InvalidValue
		}
	}
	return gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"errors"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// nodes are where the nodes of one graph are in another.
type nodes map[gpubackend.GraphNode]gpubackend.GraphNode

// source is a graph of the guest's of which there are executable ones.
type source struct {
	graph gpubackend.Graph
	still *edition // that is this graph itself; nil: there is none
	execs map[*executable]struct{}
}

// edition is a graph as it was at some moment. Nobody changes it but an executable graph that owns
// it.
type edition struct {
	graph gpubackend.Graph
	of    *source // whose graph it still is; nil: it is nobody else's
	at    nodes   // where the nodes of that graph are; nil: they are the same
	uses  int
	has   map[gpubackend.GraphNode]struct{} // its nodes, once somebody has asked
	owned bool                              // by one executable graph, whose names are in at
	lost  bool                              // it couldn't be copied, so it is no more
}

var (
	errLost = errors.New("an executable graph was made of a graph that can't be copied")
	errPair = errors.New("an executable graph was updated by one with its nodes in another order")
)

// sourceOf returns the record of a graph.
func (x *Exec) sourceOf(g gpubackend.Graph) *source {
	s := x.sources[g]
	if s == nil {
		s = &source{graph: g, execs: map[*executable]struct{}{}}
		x.sources[g] = s
	}
	return s
}

// take returns what a graph is now, for another use.
func (x *Exec) take(s *source) *edition {
	if s.still == nil {
		s.still = &edition{graph: s.graph, of: s}
	}
	taken := s.still
	taken.uses++
	if x.inner { // it may change unnoticed
		x.part(s)
	}
	return taken
}

// release ends a use of an edition; nil is none.
func (x *Exec) release(s *edition) {
	if s == nil {
		return
	}
	if s.uses--; s.uses > 0 {
		return
	}
	switch {
	case s.of != nil:
		s.of.still = nil
		x.forget(s.of)
	case !s.lost:
		x.calls.GraphDestroy(s.graph)
	}
}

// forget removes the record of a graph that is of no more use.
func (x *Exec) forget(s *source) {
	if s.still == nil && len(s.execs) == 0 && x.sources[s.graph] == s {
		delete(x.sources, s.graph)
	}
}

// part makes the edition that is a graph itself a copy of it.
func (x *Exec) part(s *source) {
	c := s.still
	if c == nil {
		return
	}
	s.still, c.of, c.has = nil, nil, nil
	var err error
	c.graph, c.at, err = x.copied(s.graph)
	c.lost = err != nil
	x.forget(s)
}

// copied copies a graph, and says where its nodes are in the copy.
func (x *Exec) copied(g gpubackend.Graph) (gpubackend.Graph, nodes, error) {
	list, r := x.calls.GraphGetNodes(g)
	if r != gpubackend.Success {
		return 0, nil, r.Err()
	}
	c, r := x.calls.GraphClone(g)
	if r != gpubackend.Success {
		return 0, nil, r.Err()
	}
	pairs := make(nodes, len(list))
	err := error(nil)
	for _, n := range list {
		if pairs[n], r = x.calls.GraphNodeFindInClone(n, c); r != gpubackend.Success {
			err = r.Err()
		} else if err == nil {
			err = x.pairInner(n, pairs[n], pairs)
		}
	}
	if err != nil {
		x.calls.GraphDestroy(c)
		return 0, nil, err
	}
	return c, pairs, nil
}

// places are where the nodes are in an edition, by the nodes of the graph that it was made of.
func (x *Exec) places(s *edition) (nodes, error) {
	switch {
	case s.lost:
		return nil, errLost
	case s.at != nil:
		return s.at, nil
	}
	list, r := x.calls.GraphGetNodes(s.graph)
	at := make(nodes, len(list))
	for _, n := range list {
		at[n] = n
	}
	return at, r.Err()
}

// nodesOf are where the nodes of an executable graph are in what it does now, by the nodes with
// which the guest names them. It is empty if nobody needs names.
func (x *Exec) nodesOf(e *executable) (nodes, error) {
	switch {
	case e.now == e.made, e.now.owned:
		return x.places(e.now)
	case e.made == nil:
		return nodes{}, nil
	case e.now.lost:
		return nil, errLost
	}
	at, err := x.places(e.made)
	if err != nil {
		return nil, err
	}
	pairs, err := x.pair(e.made.graph, e.now.graph)
	return at.then(pairs), err
}

// then are where nodes are that are moved on.
func (at nodes) then(pairs nodes) nodes {
	there := make(nodes, len(at))
	for name, n := range at {
		if m, ok := pairs[n]; ok {
			there[name] = m
		}
	}
	return there
}

// pair says which nodes of two graphs of the same form are the same. The driver has updated one by
// the other, or copied it into a node, so it has pairs, too, and doesn't tell them: it follows the
// order of nodes and edges. If that is the same in both, there is only one answer.
func (x *Exec) pair(a, b gpubackend.Graph) (nodes, error) {
	pairs := nodes{}
	return pairs, x.addPairs(a, b, pairs)
}

func (x *Exec) addPairs(a, b gpubackend.Graph, pairs nodes) error {
	from, err := x.shape(a)
	if err != nil {
		return err
	}
	to, err := x.shape(b)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(from, to, func(m, n shapedNode) bool {
		return m.kind == n.kind && slices.Equal(m.after, n.after)
	}) {
		return errPair
	}
	for i := range from {
		pairs[from[i].node] = to[i].node
		if err := x.pairInner(from[i].node, to[i].node, pairs); err != nil {
			return err
		}
	}
	return nil
}

// pairInner pairs the nodes in two nodes, if they are graphs of whose nodes the guest may have
// handles.
func (x *Exec) pairInner(a, b gpubackend.GraphNode, pairs nodes) error {
	if !x.inner {
		return nil
	}
	from, r := x.graphIn(a)
	if r != gpubackend.Success || from == 0 {
		return r.Err()
	}
	to, r := x.graphIn(b)
	if r != gpubackend.Success {
		return r.Err()
	}
	return x.addPairs(from, to, pairs)
}

// graphIn is the graph in a node; 0: the node has none.
func (x *Exec) graphIn(n gpubackend.GraphNode) (gpubackend.Graph, gpubackend.Result) {
	kind, r := x.calls.GraphNodeGetType(n)
	if r != gpubackend.Success || gpubackend.NodeType(kind) != gpubackend.NodeGraph {
		return 0, r
	}
	what, r := x.Graphs.GraphNodeGet(n)
	if r != gpubackend.Success {
		return 0, r
	}
	return what.Child, r
}

// shapedNode is a node, its type, and the numbers of those that it comes after.
type shapedNode struct {
	node  gpubackend.GraphNode
	kind  uint64
	after []int
}

func (x *Exec) shape(g gpubackend.Graph) ([]shapedNode, error) {
	list, r := x.calls.GraphGetNodes(g)
	if r != gpubackend.Success {
		return nil, r.Err()
	}
	from, to, r := x.calls.GraphGetEdges(g, nil)
	if r != gpubackend.Success {
		return nil, r.Err()
	}
	number := make(map[gpubackend.GraphNode]int, len(list))
	for i, n := range list {
		number[n] = i
	}
	shape := make([]shapedNode, len(list))
	for i, n := range list {
		kind, r := x.calls.GraphNodeGetType(n)
		if r != gpubackend.Success {
			return nil, r.Err()
		}
		shape[i] = shapedNode{node: n, kind: kind}
	}
	for i, n := range to {
		after := &shape[number[n]].after
		*after = append(*after, number[from[i]])
	}
	for i := range shape {
		slices.Sort(shape[i].after)
	}
	return shape, nil
}

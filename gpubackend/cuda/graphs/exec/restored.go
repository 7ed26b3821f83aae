// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"bytes"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// restoring is one RestoreGraphs.
type restoring struct {
	*Exec
	made   map[*gpubackend.NodeState]gpubackend.GraphNode
	inside map[*gpubackend.GraphState]gpubackend.Graph // graphs in nodes, as far as they have names

	graphs map[gpubackend.Graph]gpubackend.Graph // by the handles that they had
	nodes  nodes                                 // the same
	// owner is the graph in which a new node is, and which is in no other.
	owner map[gpubackend.GraphNode]gpubackend.Graph
}

// RestoreGraphs implements gpubackend.SavingGraphs. No conditions and no memory were saved.
func (x *Exec) RestoreGraphs(all *gpubackend.GraphStates) gpubackend.Result {
	if len(all.Conditions)+len(all.Memory)+len(all.Peaks) > 0 {
		return gpubackend.NotSupported
	}
	list, execs := all.Graphs, all.Execs
	s := restoring{
		x, map[*gpubackend.NodeState]gpubackend.GraphNode{},
		map[*gpubackend.GraphState]gpubackend.Graph{},
		map[gpubackend.Graph]gpubackend.Graph{}, nodes{},
		map[gpubackend.GraphNode]gpubackend.Graph{},
	}
	for i := range list {
		x.inner = x.inner || namesInside(&list[i])
	}
	for i := range list {
		if r := s.graph(&list[i]); r != gpubackend.Success {
			return r
		}
	}
	for i := range list {
		if r := s.copies(&list[i]); r != gpubackend.Success {
			return r
		}
	}
	for i := range execs {
		if r := s.exec(&execs[i]); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

// namesInside says whether the guest may have handles of graphs in a graph.
func namesInside(g *gpubackend.GraphState) bool {
	return slices.ContainsFunc(g.Nodes, func(n gpubackend.NodeState) bool {
		return n.Child != nil && (n.Child.Graph != 0 || namesInside(n.Child))
	})
}

// graph makes a graph of the guest's.
func (s *restoring) graph(state *gpubackend.GraphState) gpubackend.Result {
	g, r := s.make(state, maxDepth)
	if r != gpubackend.Success {
		return r
	}
	return s.name(state, g, g)
}

// name puts the new handles into the state of a graph. It is in owner, or is that.
func (s *restoring) name(
	state *gpubackend.GraphState, g, owner gpubackend.Graph,
) gpubackend.Result {
	if state.Graph == 0 || g == 0 || s.graphs[state.Graph] != 0 {
		return gpubackend.InvalidValue
	}
	s.graphs[state.Graph] = g
	state.Graph = g
	for i := range state.Nodes {
		n := &state.Nodes[i]
		now := s.made[n]
		if n.Node == 0 || s.nodes[n.Node] != 0 {
			return gpubackend.InvalidValue
		}
		s.nodes[n.Node], s.owner[now] = now, owner
		n.Node = now
		if n.Child == nil || !s.inner {
			continue
		}
		if r := s.name(n.Child, s.inside[n.Child], owner); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

// copies notes which nodes of a graph are copies, and of which graph's.
func (s *restoring) copies(state *gpubackend.GraphState) gpubackend.Result {
	for i := range state.Nodes {
		n := &state.Nodes[i]
		if n.Origin == 0 {
			continue
		}
		origin := s.nodes[n.Origin]
		of := s.owner[origin]
		if was, ok := s.clones[state.Graph]; of == 0 || of == state.Graph || ok && was != of {
			return gpubackend.InvalidValue
		}
		s.clones[state.Graph] = of
		if s.origins[state.Graph] == nil {
			s.origins[state.Graph] = nodes{}
		}
		s.origins[state.Graph][origin] = n.Node
	}
	return gpubackend.Success
}

// make makes a graph.
func (s *restoring) make(
	state *gpubackend.GraphState, depth int,
) (gpubackend.Graph, gpubackend.Result) {
	if depth == 0 {
		return 0, gpubackend.InvalidValue
	}
	g, r := s.calls.GraphCreate(0)
	for i := range state.Nodes {
		if r != gpubackend.Success {
			return 0, r
		}
		r = s.node(g, &state.Nodes[i], depth)
	}
	if r == gpubackend.Success {
		r = s.edges(g, state.Nodes)
	}
	return g, r
}

// edges adds the edges of a graph.
func (s *restoring) edges(g gpubackend.Graph, list []gpubackend.NodeState) gpubackend.Result {
	var from, to []gpubackend.GraphNode
	var edges []byte
	for i := range list {
		n := &list[i]
		if len(n.Edges) != 0 && len(n.Edges) != edgeBytes*len(n.After) {
			return gpubackend.InvalidValue
		}
		for j, b := range n.After {
			if b < 0 || b >= len(list) || b == i || slices.Contains(n.After[:j], b) {
				return gpubackend.InvalidValue
			}
			from, to = append(from, s.made[&list[b]]), append(to, s.made[n])
		}
		if len(n.Edges) == 0 {
			edges = append(edges, make([]byte, edgeBytes*len(n.After))...)
		}
		edges = append(edges, n.Edges...)
	}
	if len(from) == 0 {
		return gpubackend.Success
	}
	return s.calls.GraphAddDependencies(g, from, to, edges)
}

// node makes a node.
func (s *restoring) node(
	g gpubackend.Graph, n *gpubackend.NodeState, depth int,
) (r gpubackend.Result) {
	if r := s.contexts.SetCurrent(n.Context); r != gpubackend.Success {
		return r
	}
	what := n.What
	switch t := what.Type; {
	case (t == gpubackend.NodeGraph) != (n.Child != nil), len(n.Bodies) > 0:
		return gpubackend.InvalidValue
	case t == gpubackend.NodeMemAlloc, t == gpubackend.NodeMemFree, t == gpubackend.NodeConditional:
		return gpubackend.NotSupported
	case t == gpubackend.NodeGraph:
		if what.Child, r = s.make(n.Child, depth-1); r != gpubackend.Success {
			return r
		}
		what.Moved = false
		defer s.calls.GraphDestroy(what.Child) // the node has a copy
	}
	node, _, _, r := s.Graphs.GraphAddNode(g, nil, nil, &what)
	s.made[n] = node
	if r == gpubackend.Success && n.Child != nil && s.inner {
		r = s.move(n.Child, what.Child, node)
	}
	if r != gpubackend.Success {
		return r
	}
	return s.attributes(node, what.Launch.Attributes)
}

// move notes that what was made in a graph is in a node now, which has a copy of the graph.
func (s *restoring) move(
	state *gpubackend.GraphState, from gpubackend.Graph, to gpubackend.GraphNode,
) gpubackend.Result {
	inner, r := s.graphIn(to)
	if r != gpubackend.Success {
		return r
	}
	s.inside[state] = inner
	pairs, err := s.pair(from, inner)
	if err != nil {
		return gpubackend.NotSupported
	}
	return s.moveNodes(state, pairs)
}

func (s *restoring) moveNodes(state *gpubackend.GraphState, pairs nodes) gpubackend.Result {
	for i := range state.Nodes {
		n := &state.Nodes[i]
		s.made[n] = pairs[s.made[n]]
		if n.Child == nil {
			continue
		}
		inner, r := s.graphIn(s.made[n])
		if r != gpubackend.Success {
			return r
		}
		s.inside[n.Child] = inner
		if r := s.moveNodes(n.Child, pairs); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

// attributes gives a kernel node those attributes that it hasn't got by itself.
func (s *restoring) attributes(n gpubackend.GraphNode, list []byte) gpubackend.Result {
	value := make([]byte, cudaabi.LaunchAttributeValueSize)
	for ; len(list) >= cudaabi.LaunchAttributeSize; list = list[cudaabi.LaunchAttributeSize:] {
		a := cudaabi.LaunchAttribute(list)
		id, want := uint64(a.ID()), a.Value()
		r := s.calls.GraphKernelNodeGetAttribute(n, id, value)
		if r == gpubackend.Success && bytes.Equal(value, want) {
			continue
		}
		r = s.calls.GraphKernelNodeSetAttribute(n, id, want)
		if r != gpubackend.Success {
			return r
		}
	}
	if len(list) != 0 {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// restoredFlags are the flags with which an executable graph is made again. What one that is
// uploaded does at once is over.
const restoredFlags = cudaabi.GraphInstantiateFlagAutoFreeOnLaunch |
	cudaabi.GraphInstantiateFlagUseNodePriority

// exec makes an executable graph. Its nodes are known to the driver by those of a graph that is
// kept for that, and to the guest by those of the graph of which it was made.
func (s *restoring) exec(state *gpubackend.ExecState) gpubackend.Result {
	of := &source{execs: map[*executable]struct{}{}} // one that is gone
	if state.Source != 0 {
		g := s.graphs[state.Source]
		if g == 0 {
			return gpubackend.InvalidValue
		}
		of = s.sourceOf(g)
	}
	if state.Flags&^(restoredFlags|cudaabi.GraphInstantiateFlagUpload) != 0 {
		return gpubackend.InvalidValue
	}
	g, r := s.make(&state.Graph, maxDepth)
	if r != gpubackend.Success {
		return r
	}
	h, r := s.Graphs.GraphInstantiateWithFlags(g, state.Flags&restoredFlags)
	if r != gpubackend.Success {
		return r
	}
	kept := &edition{graph: g, at: nodes{}, uses: 2}
	e := &executable{source: of, orphan: state.Source == 0, made: kept, now: kept, restored: true,
		flags: state.Flags, disabled: map[gpubackend.GraphNode]struct{}{}}
	of.execs[e] = struct{}{}
	s.execs[h] = e
	state.Exec = h
	if r := s.execNodes(&state.Graph, e); r != gpubackend.Success {
		return r
	}
	return s.disable(h, e)
}

// execNodes names the nodes of an executable graph, and notes those that are disabled.
func (s *restoring) execNodes(state *gpubackend.GraphState, e *executable) gpubackend.Result {
	for i := range state.Nodes {
		n := &state.Nodes[i]
		node := s.made[n]
		name := node // nobody has a name for it
		if n.Origin != 0 {
			name = s.nodes[n.Origin]
			if name == 0 || s.owner[name] != e.source.graph || e.made.at[name] != 0 {
				return gpubackend.InvalidValue
			}
		}
		e.made.at[name] = node
		if n.Disabled {
			e.disabled[name] = struct{}{}
		}
		if n.Child != nil && s.inner {
			if r := s.execNodes(n.Child, e); r != gpubackend.Success {
				return r
			}
		}
	}
	return gpubackend.Success
}

// disable disables the nodes of an executable graph, which was just made, that are to be.
func (x *Exec) disable(h gpubackend.GraphExec, e *executable) gpubackend.Result {
	for name := range e.disabled {
		if r := x.calls.GraphNodeSetEnabled(h, e.made.at[name], 0); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

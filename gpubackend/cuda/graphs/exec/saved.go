// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// maxDepth bounds graphs in graphs.
const maxDepth = 256

// Why graphs can't be made again.
var (
	errContexts = errors.New("it has graphs, and several contexts")
	errKind     = errors.New("a graph allocates memory or has conditions")
	errArray    = errors.New("a graph copies from or to an array")
	errGone     = errors.New("a graph names memory or a function that is gone")
	errInner    = errors.New("it knows nodes of a graph in an executable graph only in part")
	errDepth    = errors.New("its graphs are too deep in one another")
	errDevice   = errors.New("an executable graph can be launched by kernels")
	errUnknown  = errors.New("nothing is known of an executable graph")
)

// FixedGraphs implements gpubackend.SavingGraphs: graphs with memory, as far as it is counted, and
// conditions.
func (x *Exec) FixedGraphs() int {
	n := x.Allocating()
	for _, conditions := range x.conditions {
		n += conditions
	}
	return n
}

// SaveGraphs implements gpubackend.SavingGraphs.
func (x *Exec) SaveGraphs(
	list []gpubackend.Graph, execs []gpubackend.GraphExec,
) (*gpubackend.GraphStates, error) {
	all := &gpubackend.GraphStates{}
	if len(list)+len(execs) == 0 {
		return all, nil
	}
	c, err := x.only()
	if err != nil {
		return nil, err
	}
	r := x.contexts.In(c, func() gpubackend.Result {
		s := saving{x, c.Handle, list}
		if all.Graphs, err = s.states(); err == nil {
			all.Execs, err = s.execStates(execs)
		}
		return gpubackend.Success
	})
	return all, errors.Join(err, r.Err())
}

// only is the context of all nodes: the driver doesn't tell a node's.
func (x *Exec) only() (only *contexts.Context, err error) {
	for c := range x.contexts.All() {
		if !c.Exists() {
			continue
		}
		if only != nil {
			return nil, errContexts
		}
		only = c
	}
	if only == nil {
		return nil, errGone
	}
	return only, nil
}

// saving is one SaveGraphs.
type saving struct {
	*Exec
	context gpubackend.Context
	list    []gpubackend.Graph
}

func (s *saving) states() (states []gpubackend.GraphState, err error) {
	for _, g := range s.list {
		state, err := s.state(g, maxDepth)
		if err != nil {
			return nil, err
		}
		s.addOrigins(g, state)
		states = append(states, *state)
	}
	return states, nil
}

// addOrigins says which nodes of a copied graph are copies of which.
func (s *saving) addOrigins(g gpubackend.Graph, state *gpubackend.GraphState) {
	of, ok := s.clones[g]
	if !ok || !slices.Contains(s.list, of) {
		return
	}
	list, _ := s.calls.GraphGetNodes(of)
	origins := nodes{}
	for _, n := range list {
		if there, r := s.GraphNodeFindInClone(n, g); r == gpubackend.Success {
			origins[there] = n
		}
	}
	for i := range state.Nodes {
		state.Nodes[i].Origin = origins[state.Nodes[i].Node]
	}
}

// state reads a graph.
func (s *saving) state(g gpubackend.Graph, depth int) (*gpubackend.GraphState, error) {
	if depth == 0 {
		return nil, errDepth
	}
	list, r := s.calls.GraphGetNodes(g)
	if r != gpubackend.Success {
		return nil, fmt.Errorf("read a graph: %w", r.Err())
	}
	state := &gpubackend.GraphState{Graph: g, Nodes: make([]gpubackend.NodeState, len(list))}
	at := make(map[gpubackend.GraphNode]int, len(list))
	for i, n := range list {
		at[n] = i
		if err := s.node(n, &state.Nodes[i], depth); err != nil {
			return nil, err
		}
	}
	from, to, edges, r := s.edges(g)
	if r != gpubackend.Success {
		return nil, fmt.Errorf("read a graph's edges: %w", r.Err())
	}
	for i := range from {
		n := &state.Nodes[at[to[i]]]
		n.After = append(n.After, at[from[i]])
		n.Edges = append(n.Edges, edges[i*edgeBytes:(i+1)*edgeBytes]...)
	}
	for i := range state.Nodes {
		if n := &state.Nodes[i]; !slices.ContainsFunc(n.Edges, nonzero) {
			n.Edges = nil // ordinary ones
		}
	}
	return state, nil
}

func nonzero(b byte) bool { return b != 0 }

// edges are all edges of a graph, with what is known of each.
func (x *Exec) edges(
	g gpubackend.Graph,
) (from, to []gpubackend.GraphNode, edges []byte, r gpubackend.Result) {
	from, _, r = x.calls.GraphGetEdges(g, nil)
	if r != gpubackend.Success {
		return nil, nil, nil, r
	}
	edges = make([]byte, len(from)*edgeBytes)
	from, to, r = x.calls.GraphGetEdges(g, edges)
	return from, to, edges, r
}

// node reads a node.
func (s *saving) node(n gpubackend.GraphNode, to *gpubackend.NodeState, depth int) error {
	kind, r := s.calls.GraphNodeGetType(n)
	if r != gpubackend.Success {
		return fmt.Errorf("read a node: %w", r.Err())
	}
	switch gpubackend.NodeType(kind) {
	case gpubackend.NodeMemAlloc, gpubackend.NodeMemFree, gpubackend.NodeConditional:
		return errKind
	}
	what, r := s.Graphs.GraphNodeGet(n)
	switch {
	case r == gpubackend.NotSupported:
		return errArray
	case r != gpubackend.Success:
		return errGone
	}
	*to = gpubackend.NodeState{Node: n, Context: s.context, What: *what}
	switch what.Type {
	case gpubackend.NodeGraph:
		child, err := s.state(what.Child, depth-1)
		if err != nil {
			return err
		}
		if !s.inner {
			unname(child)
		}
		to.Child, to.What.Child = child, 0
		return nil
	case gpubackend.NodeHost:
		return nil
	case gpubackend.NodeKernel:
		to.What.Launch.Attributes = s.attributes(n)
	}
	if s.Check(what) != gpubackend.Success {
		return errGone
	}
	return nil
}

// unname makes a graph one for which the guest has no handles.
func unname(g *gpubackend.GraphState) {
	g.Graph = 0
	for i := range g.Nodes {
		g.Nodes[i].Node = 0
		if child := g.Nodes[i].Child; child != nil {
			unname(child)
		}
	}
}

// attributes are those of a kernel node that aren't zero, as CUlaunchAttribute. Kernels can't
// change nodes, so that one is never set.
func (s *saving) attributes(n gpubackend.GraphNode) (list []byte) {
	value := make([]byte, cudaabi.LaunchAttributeValueSize)
	for id := range uint64(64) {
		clear(value)
		if !allowed.NodeAttribute.Has(id) ||
			id == cudaabi.LaunchAttributeDeviceUpdatableKernelNode ||
			s.calls.GraphKernelNodeGetAttribute(n, id, value) != gpubackend.Success ||
			!slices.ContainsFunc(value, nonzero) {
			continue
		}
		entry := make([]byte, cudaabi.LaunchAttributeSize)
		cudaabi.LaunchAttribute(entry).SetID(uint32(id))
		copy(cudaabi.LaunchAttribute(entry).Value(), value)
		list = append(list, entry...)
	}
	return list
}

func (s *saving) execStates(
	execs []gpubackend.GraphExec,
) (states []gpubackend.ExecState, err error) {
	for _, h := range execs {
		e := s.execs[h]
		if e == nil {
			return nil, errUnknown
		}
		state, err := s.execState(h, e)
		if err != nil {
			return nil, err
		}
		states = append(states, *state)
	}
	return states, nil
}

func (s *saving) execState(
	h gpubackend.GraphExec, e *executable,
) (*gpubackend.ExecState, error) {
	at, err := s.nodesOf(e)
	switch {
	case err != nil:
		return nil, err
	case e.flags&cudaabi.GraphInstantiateFlagDeviceLaunch != 0:
		return nil, errDevice
	}
	g, err := s.state(e.now.graph, maxDepth)
	if err != nil {
		return nil, err
	}
	state := &gpubackend.ExecState{Exec: h, Flags: e.flags, Graph: *g}
	known := map[gpubackend.GraphNode]struct{}{}
	if !e.orphan {
		if state.Source = e.source.graph; !slices.Contains(s.list, state.Source) {
			return nil, errInner
		}
		if err := s.every(state.Source, known); err != nil {
			return nil, err
		}
	}
	names := nodes{}
	for name, n := range at {
		names[n] = name
	}
	m := marking{e, names, known, 0}
	m.mark(g)
	switch {
	case m.disabled != len(e.disabled):
		return nil, errLost
	case !e.orphan && s.inner && m.nameless(g):
		return nil, errInner
	}
	unname(&state.Graph)
	return state, nil
}

// every adds all nodes that the guest can name in a graph.
func (s *saving) every(g gpubackend.Graph, set map[gpubackend.GraphNode]struct{}) error {
	list, r := s.calls.GraphGetNodes(g)
	for _, n := range list {
		set[n] = struct{}{}
		if !s.inner {
			continue
		}
		inner, r := s.graphIn(n)
		if r != gpubackend.Success {
			return r.Err()
		}
		if inner == 0 {
			continue
		}
		if err := s.every(inner, set); err != nil {
			return err
		}
	}
	return r.Err()
}

// marking says of nodes of an executable graph what the guest calls them, and which are disabled.
type marking struct {
	exec     *executable
	names    nodes
	known    map[gpubackend.GraphNode]struct{} // nodes that still exist
	disabled int
}

func (m *marking) mark(g *gpubackend.GraphState) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		name := m.names[n.Node]
		if _, off := m.exec.disabled[name]; off {
			n.Disabled = true
			m.disabled++
		}
		if _, ok := m.known[name]; ok {
			n.Origin = name
		}
		if n.Child != nil {
			m.mark(n.Child)
		}
	}
}

// nameless says whether a node in a node has no name.
func (m *marking) nameless(g *gpubackend.GraphState) bool {
	return slices.ContainsFunc(g.Nodes, func(n gpubackend.NodeState) bool {
		return n.Child != nil && (m.nameless(n.Child) ||
			slices.ContainsFunc(n.Child.Nodes, func(n gpubackend.NodeState) bool {
				return m.names[n.Node] == 0
			}))
	})
}

// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"bytes"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/graphs"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

var _ Calls = (*fake)(nil)

// fake is a driver that has graphs. It knows the nodes of an executable graph by those of the graph
// of which that was made, and by no others. What is gone can't be used.
type fake struct {
	graphs.Calls // what isn't needed
	t            *testing.T
	last         uint64
	graphs       map[gpubackend.Graph]*fakeGraph
	nodes        map[gpubackend.GraphNode]*fakeNode
	execs        map[gpubackend.GraphExec]*fakeExec
	cloned       int  // graphs
	registered   int  // how often host memory was registered
	refuse       bool // to copy a graph
}

type fakeGraph struct {
	handle gpubackend.Graph
	nodes  []*fakeNode
	edges  []fakeEdge
	copies map[*fakeNode]*fakeNode // of the graph that this is a copy of, and here
}

type fakeNode struct {
	handle     gpubackend.GraphNode
	owner      *fakeGraph
	params     []byte
	seen       int // of registered, when it was made or set
	child      *fakeGraph
	attributes map[uint64][]byte
}

type fakeEdge struct {
	from, to *fakeNode
	data     [edgeBytes]byte
}

// fakeExec has copies of nodes, by those that are known.
type fakeExec struct {
	graph    *fakeGraph
	at       map[*fakeNode]*fakeNode
	disabled map[*fakeNode]bool
	flags    uint64
}

func (f *fake) handle() uint64 {
	f.last += 16
	return f.last
}

func (f *fake) graph(g gpubackend.Graph) *fakeGraph {
	f.t.Helper()
	found := f.graphs[g]
	if found == nil {
		f.t.Fatalf("there is no graph %#x", g)
	}
	return found
}

func (f *fake) node(n gpubackend.GraphNode) *fakeNode {
	f.t.Helper()
	found := f.nodes[n]
	if found == nil {
		f.t.Fatalf("there is no node %#x", n)
	}
	return found
}

func (f *fake) GraphCreate(uint64) (gpubackend.Graph, gpubackend.Result) {
	g := &fakeGraph{handle: gpubackend.Graph(f.handle())}
	f.graphs[g.handle] = g
	return g.handle, gpubackend.Success
}

func (f *fake) GraphDestroy(g gpubackend.Graph) gpubackend.Result {
	f.destroy(f.graph(g))
	return gpubackend.Success
}

func (f *fake) destroy(g *fakeGraph) {
	delete(f.graphs, g.handle)
	for _, n := range g.nodes {
		delete(f.nodes, n.handle)
		if n.child != nil {
			f.destroy(n.child)
		}
	}
}

func (f *fake) GraphClone(g gpubackend.Graph) (gpubackend.Graph, gpubackend.Result) {
	if f.refuse {
		return 0, gpubackend.NotSupported
	}
	f.cloned++
	return f.copied(f.graph(g), nil).handle, gpubackend.Success
}

// copied copies a graph, and says in all where the copies of all its nodes are.
func (f *fake) copied(g *fakeGraph, all map[*fakeNode]*fakeNode) *fakeGraph {
	c := &fakeGraph{handle: gpubackend.Graph(f.handle()), copies: map[*fakeNode]*fakeNode{}}
	f.graphs[c.handle] = c
	for _, n := range g.nodes {
		m := &fakeNode{handle: gpubackend.GraphNode(f.handle()), owner: c,
			params: bytes.Clone(n.params), seen: n.seen, attributes: map[uint64][]byte{}}
		for id, value := range n.attributes {
			m.attributes[id] = value
		}
		if n.child != nil {
			m.child = f.copied(n.child, all)
		}
		f.nodes[m.handle] = m
		c.nodes, c.copies[n] = append(c.nodes, m), m
		if all != nil {
			all[n] = m
		}
	}
	for _, e := range g.edges {
		c.edges = append(c.edges, fakeEdge{c.copies[e.from], c.copies[e.to], e.data})
	}
	return c
}

func (f *fake) GraphNodeFindInClone(
	n gpubackend.GraphNode, clone gpubackend.Graph,
) (gpubackend.GraphNode, gpubackend.Result) {
	if m := f.graph(clone).copies[f.node(n)]; m != nil && f.nodes[m.handle] == m {
		return m.handle, gpubackend.Success
	}
	return 0, gpubackend.InvalidValue
}

func (f *fake) GraphGetNodes(
	g gpubackend.Graph,
) (list []gpubackend.GraphNode, r gpubackend.Result) {
	for _, n := range f.graph(g).nodes {
		list = append(list, n.handle)
	}
	return list, gpubackend.Success
}

func (f *fake) GraphNodeGetType(n gpubackend.GraphNode) (uint64, gpubackend.Result) {
	return uint64(cudaabi.GraphNodeParams(f.node(n).params).Type()), gpubackend.Success
}

func (f *fake) GraphGetEdges(
	g gpubackend.Graph, edges []byte,
) (from, to []gpubackend.GraphNode, r gpubackend.Result) {
	for i, e := range f.graph(g).edges {
		from, to = append(from, e.from.handle), append(to, e.to.handle)
		if edges != nil {
			copy(edges[edgeBytes*i:], e.data[:])
		}
	}
	return from, to, gpubackend.Success
}

func (f *fake) GraphAddDependencies(
	g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	for i := range from {
		e := fakeEdge{from: f.node(from[i]), to: f.node(to[i])}
		if len(edges) > 0 {
			copy(e.data[:], edges[edgeBytes*i:])
		}
		f.graph(g).edges = append(f.graph(g).edges, e)
	}
	return gpubackend.Success
}

func (f *fake) GraphRemoveDependencies(
	g gpubackend.Graph, from, to []gpubackend.GraphNode, _ []byte,
) gpubackend.Result {
	x := f.graph(g)
	x.edges = slices.DeleteFunc(x.edges, func(e fakeEdge) bool {
		return e.from.handle == from[0] && e.to.handle == to[0]
	})
	return gpubackend.Success
}

func (f *fake) GraphDestroyNode(n gpubackend.GraphNode) gpubackend.Result {
	x := f.node(n)
	delete(f.nodes, n)
	x.owner.nodes = slices.DeleteFunc(x.owner.nodes, func(m *fakeNode) bool { return m == x })
	x.owner.edges = slices.DeleteFunc(x.owner.edges, func(e fakeEdge) bool {
		return e.from == x || e.to == x
	})
	if x.child != nil {
		f.destroy(x.child)
	}
	return gpubackend.Success
}

func (f *fake) GraphAdd(
	g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, params cmem.Memory,
) (gpubackend.GraphNode, gpubackend.Result) {
	n := &fakeNode{handle: gpubackend.GraphNode(f.handle()), owner: f.graph(g),
		params: bytes.Clone(params.Bytes()[:cudaabi.GraphNodeParamsSize]), seen: f.registered,
		attributes: map[uint64][]byte{}}
	p := cudaabi.GraphNodeParams(n.params)
	if gpubackend.NodeType(p.Type()) == gpubackend.NodeGraph {
		n.child = f.copied(f.graph(gpubackend.Graph(p.Graph().Graph())), nil)
	}
	f.nodes[n.handle] = n
	n.owner.nodes = append(n.owner.nodes, n)
	to := slices.Repeat([]gpubackend.GraphNode{n.handle}, len(after))
	return n.handle, f.GraphAddDependencies(g, after, to, edges)
}

func (f *fake) GraphNodeGetParams(
	n gpubackend.GraphNode, t gpubackend.NodeType,
) (cmem.Memory, gpubackend.Result) {
	x, m := f.node(n), cmem.Allocate(cudaabi.GraphNodeParamsSize)
	p := cudaabi.GraphNodeParams(x.params)
	switch t {
	case gpubackend.NodeGraph:
		cudaabi.ChildGraphNodeParams(m.Bytes()).SetGraph(uint64(x.child.handle))
	case gpubackend.NodeMemset:
		from, to := p.Memset(), cudaabi.MemsetNodeParams(m.Bytes())
		to.SetDst(from.Dst())
		to.SetPitch(from.Pitch())
		to.SetValue(from.Value())
		to.SetElementSize(from.ElementSize())
		to.SetWidth(from.Width())
		to.SetHeight(from.Height())
	default:
		copy(m.Bytes(), p.Kernel())
	}
	return m, gpubackend.Success
}

func (f *fake) GraphNodeSetParams(n gpubackend.GraphNode, params cmem.Memory) gpubackend.Result {
	x := f.node(n)
	copy(x.params, params.Bytes())
	x.seen = f.registered
	return gpubackend.Success
}

func (f *fake) FuncOffsets(gpubackend.Function, []byte) []uint32 { return nil }

func (f *fake) GraphKernelNodeGetAttribute(
	n gpubackend.GraphNode, id uint64, value []byte,
) gpubackend.Result {
	clear(value)
	copy(value, f.node(n).attributes[id])
	return gpubackend.Success
}

func (f *fake) GraphKernelNodeSetAttribute(
	n gpubackend.GraphNode, id uint64, value []byte,
) gpubackend.Result {
	f.node(n).attributes[id] = bytes.Clone(value)
	return gpubackend.Success
}

func (f *fake) GraphKernelNodeCopyAttributes(dst, src gpubackend.GraphNode) gpubackend.Result {
	f.node(dst).attributes = f.node(src).attributes
	return gpubackend.Success
}

func (f *fake) GraphInstantiateWithFlags(
	g gpubackend.Graph, flags uint64,
) (gpubackend.GraphExec, gpubackend.Result) {
	e := &fakeExec{at: map[*fakeNode]*fakeNode{}, disabled: map[*fakeNode]bool{}, flags: flags}
	e.graph = f.copied(f.graph(g), e.at)
	h := gpubackend.GraphExec(f.handle())
	f.execs[h] = e
	return h, gpubackend.Success
}

func (f *fake) GraphInstantiateWithParams(
	g gpubackend.Graph, flags uint64, _ gpubackend.Stream,
) (gpubackend.GraphExec, gpubackend.GraphNode, uint64, gpubackend.Result) {
	e, r := f.GraphInstantiateWithFlags(g, flags)
	return e, 0, 0, r
}

func (f *fake) Touch(gpubackend.Stream) {}

func (f *fake) GraphLaunch(gpubackend.GraphExec, gpubackend.Stream) gpubackend.Result {
	return gpubackend.Success
}

func (f *fake) GraphExecDestroy(e gpubackend.GraphExec) gpubackend.Result {
	f.destroy(f.execs[e].graph)
	delete(f.execs, e)
	return gpubackend.Success
}

func (f *fake) GraphExecNodeSetParams(
	e gpubackend.GraphExec, n gpubackend.GraphNode, params cmem.Memory,
) gpubackend.Result {
	x := f.execs[e].at[f.node(n)]
	if x == nil {
		return gpubackend.InvalidValue
	}
	copy(x.params, params.Bytes())
	return gpubackend.Success
}

// GraphExecUpdate pairs nodes by their order.
func (f *fake) GraphExecUpdate(g gpubackend.Graph, e gpubackend.GraphExec) (
	node, from gpubackend.GraphNode, why uint64, r gpubackend.Result,
) {
	return 0, 0, 0, f.update(f.graph(g), f.execs[e].graph)
}

func (f *fake) update(from, to *fakeGraph) gpubackend.Result {
	if len(from.nodes) != len(to.nodes) {
		return gpubackend.GraphExecUpdateFailure
	}
	for i, n := range from.nodes {
		m := to.nodes[i]
		if (n.child == nil) != (m.child == nil) {
			return gpubackend.GraphExecUpdateFailure
		}
		if n.child == nil {
			copy(m.params, n.params)
		} else if r := f.update(n.child, m.child); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

func (f *fake) GraphNodeSetEnabled(
	e gpubackend.GraphExec, n gpubackend.GraphNode, on uint64,
) gpubackend.Result {
	x := f.execs[e].at[f.node(n)]
	if x == nil {
		return gpubackend.InvalidValue
	}
	f.execs[e].disabled[x] = on == 0
	return gpubackend.Success
}

func (f *fake) GraphNodeGetEnabled(
	e gpubackend.GraphExec, n gpubackend.GraphNode,
) (uint64, gpubackend.Result) {
	x := f.execs[e].at[f.node(n)]
	switch {
	case x == nil:
		return 0, gpubackend.InvalidValue
	case f.execs[e].disabled[x]:
		return 0, gpubackend.Success
	}
	return 1, gpubackend.Success
}

func (f *fake) PointerAttribute(_, _ uint64) (uint64, gpubackend.Result) {
	return 0, gpubackend.InvalidValue
}

// does is what an executable graph fills memory with: for each node its value, and how many nodes
// it comes after.
func (f *fake) does(e gpubackend.GraphExec) []int {
	return f.fills(f.execs[e].graph, f.execs[e].disabled)
}

func (f *fake) fills(g *fakeGraph, disabled map[*fakeNode]bool) (list []int) {
	for _, n := range g.nodes {
		after := 0
		for _, edge := range g.edges {
			if edge.to == n {
				after += 1 + int(edge.data[0])
			}
		}
		switch {
		case n.child != nil:
			list = append(append(list, -1, after), f.fills(n.child, disabled)...)
		case disabled[n]:
			list = append(list, -2, after)
		default:
			list = append(list, int(cudaabi.GraphNodeParams(n.params).Memset().Value()), after)
		}
	}
	return list
}

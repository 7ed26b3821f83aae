// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/graphs"
	"github.com/paracuda/paracuda/gpubackend/cuda/graphs/begun"
)

const edgeBytes = driver.EdgeBytes

// Calls are the functions of the driver that are called here.
type Calls interface {
	GraphCreate(flags uint64) (gpubackend.Graph, gpubackend.Result)
	GraphDestroy(g gpubackend.Graph) gpubackend.Result
	GraphClone(g gpubackend.Graph) (gpubackend.Graph, gpubackend.Result)
	GraphNodeFindInClone(n gpubackend.GraphNode, clone gpubackend.Graph) (gpubackend.GraphNode,
		gpubackend.Result)
	GraphGetNodes(g gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result)
	GraphNodeGetType(n gpubackend.GraphNode) (uint64, gpubackend.Result)
	GraphGetEdges(g gpubackend.Graph, edges []byte) (from, to []gpubackend.GraphNode,
		r gpubackend.Result)
	GraphAddDependencies(g gpubackend.Graph, from, to []gpubackend.GraphNode,
		edges []byte) gpubackend.Result
	GraphRemoveDependencies(g gpubackend.Graph, from, to []gpubackend.GraphNode,
		edges []byte) gpubackend.Result
	GraphDestroyNode(n gpubackend.GraphNode) gpubackend.Result
	GraphKernelNodeGetAttribute(n gpubackend.GraphNode, id uint64, value []byte) gpubackend.Result
	GraphKernelNodeSetAttribute(n gpubackend.GraphNode, id uint64, value []byte) gpubackend.Result
	GraphKernelNodeCopyAttributes(dst, src gpubackend.GraphNode) gpubackend.Result
	GraphExecUpdate(g gpubackend.Graph, e gpubackend.GraphExec) (node, from gpubackend.GraphNode,
		why uint64, r gpubackend.Result)
	GraphNodeSetEnabled(e gpubackend.GraphExec, n gpubackend.GraphNode, on uint64) gpubackend.Result
	GraphNodeGetEnabled(e gpubackend.GraphExec, n gpubackend.GraphNode) (uint64, gpubackend.Result)
}

// Exec is the graphs of one guest process, and the executable ones.
type Exec struct {
	*graphs.Graphs
	calls    Calls
	contexts *contexts.Contexts

	sources    map[gpubackend.Graph]*source
	execs      map[gpubackend.GraphExec]*executable
	clones     map[gpubackend.Graph]gpubackend.Graph // the guest's, and of what
	origins    map[gpubackend.Graph]nodes            // of restored clones: theirs, by the others
	conditions map[gpubackend.Graph]int
	inner      bool // the guest has a handle of a graph in a graph
	keeps      func() bool
	launches   begun.Launches // while keeps is true
}

// executable is an executable graph.
type executable struct {
	source   *source  // its nodes are how the guest names nodes
	orphan   bool     // that is gone, so the guest can't name nodes any more
	made     *edition // what it was made of; nil if nobody needs names
	now      *edition // what it does
	restored bool     // the driver knows its nodes by those of made
	disabled map[gpubackend.GraphNode]struct{}
	flags    uint64

	functions begun.Hosts // of now; nil: nobody has asked
}

// New returns the graphs of a process, which has none yet. keeps says whether any graph ever had a
// host function.
func New(calls Calls, x *contexts.Contexts, g *graphs.Graphs, keeps func() bool) *Exec {
	return &Exec{
		Graphs: g, calls: calls, contexts: x, keeps: keeps,
		sources:    map[gpubackend.Graph]*source{},
		execs:      map[gpubackend.GraphExec]*executable{},
		clones:     map[gpubackend.Graph]gpubackend.Graph{},
		origins:    map[gpubackend.Graph]nodes{},
		conditions: map[gpubackend.Graph]int{},
	}
}

// GraphInstantiateWithFlags makes an executable graph.
func (x *Exec) GraphInstantiateWithFlags(
	g gpubackend.Graph, flags uint64,
) (gpubackend.GraphExec, gpubackend.Result) {
	e, r := x.Graphs.GraphInstantiateWithFlags(g, flags)
	if r == gpubackend.Success {
		x.note(e, g, flags)
	}
	return e, r
}

// GraphInstantiate does so by cuGraphInstantiateWithParams.
func (x *Exec) GraphInstantiate(g gpubackend.Graph, flags uint64, upload gpubackend.Stream) (
	e gpubackend.GraphExec, node gpubackend.GraphNode, status uint64, r gpubackend.Result,
) {
	e, node, status, r = x.Graphs.GraphInstantiate(g, flags, upload)
	if r == gpubackend.Success {
		x.note(e, g, flags)
	}
	return e, node, status, r
}

func (x *Exec) note(h gpubackend.GraphExec, g gpubackend.Graph, flags uint64) {
	x.drop(h) // one that ended with its context
	s := x.sourceOf(g)
	e := &executable{source: s, flags: flags}
	s.execs[e] = struct{}{}
	e.made, e.now = x.take(s), x.take(s)
	x.execs[h] = e
}

// GraphExecDestroy destroys an executable graph.
func (x *Exec) GraphExecDestroy(h gpubackend.GraphExec) gpubackend.Result {
	r := x.Graphs.GraphExecDestroy(h)
	if r == gpubackend.Success {
		x.drop(h)
	}
	return r
}

func (x *Exec) drop(h gpubackend.GraphExec) {
	e := x.execs[h]
	if e == nil {
		return
	}
	x.changed(h, e)
	delete(x.execs, h)
	delete(e.source.execs, e)
	x.release(e.made)
	x.release(e.now)
	x.forget(e.source)
}

// GraphExecUpdate makes an executable graph do what another graph of its form does.
func (x *Exec) GraphExecUpdate(g gpubackend.Graph, h gpubackend.GraphExec) (
	node, from gpubackend.GraphNode, why uint64, r gpubackend.Result,
) {
	node, from, why, r = x.calls.GraphExecUpdate(g, h)
	if e := x.execs[h]; e != nil && r == gpubackend.Success {
		was := e.now
		e.now = x.take(x.sourceOf(g))
		x.release(was)
		x.changed(h, e)
	}
	return node, from, why, r
}

// GraphExecNodeSet changes a node of an executable graph.
func (x *Exec) GraphExecNodeSet(
	h gpubackend.GraphExec, name gpubackend.GraphNode, n *gpubackend.Node,
) gpubackend.Result {
	node, r := x.native(h, name)
	if r == gpubackend.Success {
		r = x.Graphs.GraphExecNodeSet(h, node, n)
	}
	e := x.execs[h]
	if e == nil || r != gpubackend.Success {
		return r
	}
	x.changed(h, e)
	if !x.own(e) {
		return r
	}
	if at, ok := e.now.at[name]; !ok || x.Graphs.GraphNodeSet(at, n) != gpubackend.Success {
		x.lose(e)
	}
	return r
}

// native is the node by which the driver knows a node of an executable graph.
func (x *Exec) native(
	h gpubackend.GraphExec, name gpubackend.GraphNode,
) (gpubackend.GraphNode, gpubackend.Result) {
	e := x.execs[h]
	if e == nil || !e.restored {
		return name, gpubackend.Success
	}
	if e.made != nil {
		if n, ok := e.made.at[name]; ok {
			return n, gpubackend.Success
		}
	}
	return 0, gpubackend.InvalidValue
}

// own makes what an executable graph does a copy that only it uses. False: that is lost.
func (x *Exec) own(e *executable) bool {
	if e.now.owned {
		return !e.now.lost
	}
	at, err := x.nodesOf(e)
	if err != nil {
		x.lose(e)
		return false
	}
	g, pairs, err := x.copied(e.now.graph)
	if err != nil {
		x.lose(e)
		return false
	}
	x.release(e.now)
	e.now = &edition{graph: g, at: at.then(pairs), uses: 1, owned: true}
	return true
}

// lose notes that nobody knows any more what an executable graph does.
func (x *Exec) lose(e *executable) {
	x.release(e.now)
	e.now = &edition{uses: 1, owned: true, lost: true}
}

// GraphNodeSetEnabled says whether an executable graph does what a node of it does.
func (x *Exec) GraphNodeSetEnabled(
	h gpubackend.GraphExec, name gpubackend.GraphNode, on uint64,
) gpubackend.Result {
	node, r := x.native(h, name)
	if r == gpubackend.Success {
		r = x.calls.GraphNodeSetEnabled(h, node, on)
	}
	e := x.execs[h]
	switch {
	case e == nil || r != gpubackend.Success:
	case on != 0:
		delete(e.disabled, name)
	case e.disabled == nil:
		e.disabled = map[gpubackend.GraphNode]struct{}{name: {}}
	default:
		e.disabled[name] = struct{}{}
	}
	return r
}

// GraphNodeGetEnabled says so.
func (x *Exec) GraphNodeGetEnabled(
	h gpubackend.GraphExec, name gpubackend.GraphNode,
) (uint64, gpubackend.Result) {
	node, r := x.native(h, name)
	if r != gpubackend.Success {
		return 0, r
	}
	return x.calls.GraphNodeGetEnabled(h, node)
}

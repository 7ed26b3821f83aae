// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/graphs/begun"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// maxAlone bounds the host functions of a graph for which it is found out whether anything else
// goes on: that takes as long as reading the graph, for each of them.
const maxAlone = 64

// GraphLaunch launches a graph.
func (x *Exec) GraphLaunch(h gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result {
	if !x.keeps() {
		return x.Graphs.GraphLaunch(h, s)
	}
	if x.contexts.Idle() {
		x.launches.End()
	}
	r := x.Graphs.GraphLaunch(h, s)
	x.launches.Begin(h, activity.At(x.contexts.CurrentHandle(), s), x.busy)
	return r
}

// Held are the streams that are held by graphs' host functions, by tokens, as far as that is known.
func (x *Exec) Held(due []uint64) []activity.Place {
	if !x.contexts.Usable() {
		return nil
	}
	return x.launches.Held(due, x.functionsOf, x.busy)
}

func (x *Exec) busy(at activity.Place) bool {
	for c := range x.contexts.All() {
		if (at.Context == 0 || at.Context == c.Handle) && c.Work.Has(at.Stream) {
			return true
		}
	}
	return false
}

// changed is called when an executable graph does something else from now on, or is gone.
func (x *Exec) changed(h gpubackend.GraphExec, e *executable) {
	e.functions = nil
	x.launches.Change(h)
}

// functionsOf are the host functions of an executable graph; false: nobody knows. What its kernels
// launch by themselves isn't known either.
func (x *Exec) functionsOf(h gpubackend.GraphExec) (begun.Hosts, bool) {
	e := x.execs[h]
	if e == nil || e.now.lost || e.flags&cudaabi.GraphInstantiateFlagDeviceLaunch != 0 {
		return nil, false
	}
	if e.functions == nil {
		found := begun.Hosts{}
		if !x.addFunctions(e.now.graph, found, maxDepth) {
			return nil, false
		}
		e.functions = found
	}
	return e.functions, true
}

// addFunctions adds the host functions of a graph, and of those in it. False: it can't be read, or
// has an order that isn't understood here.
func (x *Exec) addFunctions(g gpubackend.Graph, found begun.Hosts, depth int) bool {
	from, to, edges, r := x.edges(g)
	if depth == 0 || r != gpubackend.Success || slices.ContainsFunc(edges, nonzero) {
		return false
	}
	list, r := x.calls.GraphGetNodes(g)
	if r != gpubackend.Success {
		return false
	}
	after, before := neighbours(from, to), neighbours(to, from)
	for _, n := range list {
		kind, r := x.calls.GraphNodeGetType(n)
		t := gpubackend.NodeType(kind)
		if r != gpubackend.Success || t == gpubackend.NodeConditional {
			return false
		}
		if t != gpubackend.NodeHost && t != gpubackend.NodeGraph {
			continue
		}
		what, r := x.Graphs.GraphNodeGet(n)
		if r != gpubackend.Success {
			return false
		}
		if t == gpubackend.NodeGraph {
			if !x.addInner(what.Child, found, depth-1) {
				return false
			}
			continue
		}
		_, twice := found[what.Token]
		found[what.Token] = !twice && depth == maxDepth && len(found) < maxAlone &&
			reached(n, after)+reached(n, before) == len(list)-1
	}
	return true
}

// addInner adds the host functions of a graph in a graph.
func (x *Exec) addInner(g gpubackend.Graph, found begun.Hosts, depth int) bool {
	inner := begun.Hosts{}
	if !x.addFunctions(g, inner, depth) {
		return false
	}
	for token := range inner {
		found[token] = false
	}
	return true
}

func neighbours(of, to []gpubackend.GraphNode) map[gpubackend.GraphNode][]gpubackend.GraphNode {
	all := make(map[gpubackend.GraphNode][]gpubackend.GraphNode, len(of))
	for i := range of {
		all[of[i]] = append(all[of[i]], to[i])
	}
	return all
}

// reached is how many nodes can be reached from a node.
func reached(
	from gpubackend.GraphNode, next map[gpubackend.GraphNode][]gpubackend.GraphNode,
) int {
	seen := map[gpubackend.GraphNode]struct{}{from: {}}
	for todo := []gpubackend.GraphNode{from}; len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, m := range next[n] {
			if _, ok := seen[m]; !ok {
				seen[m] = struct{}{}
				todo = append(todo, m)
			}
		}
	}
	return len(seen) - 1
}

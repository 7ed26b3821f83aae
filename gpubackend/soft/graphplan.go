// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// step is a task of an executable graph: a node's, or none at the begin and the end of a child graph.
type step struct {
	node   *node
	after  []int    // steps that come before it; none: it comes first
	bodies [][]step // of a conditional node
}

// countSteps counts steps with those in bodies.
func countSteps(steps []step) int {
	n := len(steps)
	for i := range steps {
		for _, b := range steps[i].bodies {
			n += countSteps(b)
		}
	}
	return n
}

// plan appends the steps of a graph and of its child graphs, all of which come after the given steps, and returns the
// last ones. It is false if the graph has a cycle.
func (e *graphExec) plan(g *graph, after []int) (ends []int, acyclic bool) {
	list, acyclic := ordered(g)
	if !acyclic {
		return nil, false
	}
	at := make(map[*node]int, len(list))
	followed := make(map[int]bool, len(list))
	for _, n := range list {
		e.own[n.origin] = n
		before := after
		if len(n.after) > 0 {
			before = make([]int, 0, len(n.after))
		}
		for _, b := range n.after {
			before = append(before, at[b])
			followed[at[b]] = true
		}
		switch {
		case n.what.Type == gpubackend.NodeGraph:
			begin := e.step(nil, before)
			if before, acyclic = e.plan(n.inner[0], []int{begin}); !acyclic {
				return nil, false
			}
			at[n] = e.step(nil, before)
		default:
			at[n] = e.step(n, before)
			for _, b := range n.inner {
				body := graphExec{own: e.own}
				if _, acyclic = body.plan(b, nil); !acyclic {
					return nil, false
				}
				e.steps[at[n]].bodies = append(e.steps[at[n]].bodies, body.steps)
			}
		}
	}
	for _, n := range list {
		if !followed[at[n]] {
			ends = append(ends, at[n])
		}
	}
	if len(list) == 0 {
		ends = after
	}
	return ends, true
}

func (e *graphExec) step(n *node, after []int) int {
	e.steps = append(e.steps, step{node: n, after: after})
	return len(e.steps) - 1
}

// ordered puts the nodes of a graph behind those that they come after; false if that can't be.
func ordered(g *graph) (list []*node, acyclic bool) {
	missing := make(map[*node]int, len(g.nodes))
	next := make(map[*node][]*node, len(g.nodes))
	list = make([]*node, 0, len(g.nodes))
	for _, n := range g.nodes {
		if missing[n] = len(n.after); len(n.after) == 0 {
			list = append(list, n)
		}
		for _, b := range n.after {
			next[b] = append(next[b], n)
		}
	}
	for i := 0; i < len(list); i++ {
		for _, n := range next[list[i]] {
			if missing[n]--; missing[n] == 0 {
				list = append(list, n)
			}
		}
	}
	return list, len(list) == len(g.nodes)
}

// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// step is a task of an executable graph: a node's, or none at the beginning and the end of a child
// graph.
type step struct {
	node   *graphs.Node
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

// plan appends the steps of a graph and of its child graphs, all of which come after the given
// steps, and returns the last ones. It is false if the graph has a cycle.
func (e *executable) plan(g *graphs.Graph, after []int) (ends []int, acyclic bool) {
	list, acyclic := ordered(g)
	if !acyclic {
		return nil, false
	}
	at := make(map[*graphs.Node]int, len(list))
	followed := make(map[int]bool, len(list))
	for _, n := range list {
		e.own[n.Origin] = n
		before := after
		if len(n.After) > 0 {
			before = make([]int, 0, len(n.After))
		}
		for _, b := range n.After {
			before = append(before, at[b])
			followed[at[b]] = true
		}
		switch {
		case n.What.Type == gpubackend.NodeGraph:
			begin := e.step(nil, before)
			if before, acyclic = e.plan(n.Inner[0], []int{begin}); !acyclic {
				return nil, false
			}
			at[n] = e.step(nil, before)
		default:
			at[n] = e.step(n, before)
			for _, b := range n.Inner {
				body := executable{own: e.own}
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

func (e *executable) step(n *graphs.Node, after []int) int {
	e.steps = append(e.steps, step{node: n, after: after})
	return len(e.steps) - 1
}

// ordered sorts the nodes of a graph so that each comes after those that it depends on; false if
// there is a cycle.
func ordered(g *graphs.Graph) (list []*graphs.Node, acyclic bool) {
	missing := make(map[*graphs.Node]int, len(g.Nodes))
	next := make(map[*graphs.Node][]*graphs.Node, len(g.Nodes))
	list = make([]*graphs.Node, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		if missing[n] = len(n.After); len(n.After) == 0 {
			list = append(list, n)
		}
		for _, b := range n.After {
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
	return list, len(list) == len(g.Nodes)
}

// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// execNode finds an executable graph's own node for one of the graph that it was made of.
func (x *Exec) execNode(
	h gpubackend.GraphExec, nh gpubackend.GraphNode,
) (*executable, *graphs.Node, gpubackend.Result) {
	e, result := x.executable(h)
	if result != gpubackend.Success {
		return nil, nil, result
	}
	n, result := x.options.Graphs.FindNode(nh)
	if result != gpubackend.Success {
		return nil, nil, result
	}
	own := e.own[n]
	if own == nil {
		return nil, nil, gpubackend.InvalidValue
	}
	return e, own, gpubackend.Success
}

// GraphExecNodeSet implements gpubackend.Driver.
func (x *Exec) GraphExecNodeSet(
	h gpubackend.GraphExec, nh gpubackend.GraphNode, what *gpubackend.Node,
) gpubackend.Result {
	_, n, result := x.execNode(h, nh)
	if result != gpubackend.Success {
		return result
	}
	if what.Type == gpubackend.NodeGraph && n.What.Type == gpubackend.NodeGraph {
		return x.setChild(n, what.Child)
	}
	if !updatable(&n.What, what) {
		return gpubackend.InvalidValue
	}
	return x.options.Graphs.SetNode(n, what)
}

// setChild updates a child graph of an executable graph with another of the same form.
func (x *Exec) setChild(n *graphs.Node, h gpubackend.Graph) gpubackend.Result {
	g, result := x.options.Graphs.Find(h)
	if result != gpubackend.Success {
		return result
	}
	if _, why := compare(n.Inner[0], g); why != cudaabi.GraphExecUpdateSuccess {
		return gpubackend.InvalidValue
	}
	return x.update(n.Inner[0], g)
}

// updatable says whether a node of an executable graph can be made to do something else: copies and
// fills of more than one row can't (CUDA driver API, cuGraphExecUpdate).
func updatable(old, next *gpubackend.Node) bool {
	switch {
	case old.Type != next.Type:
		return false
	case old.Type == gpubackend.NodeMemcpy && old.Copy != next.Copy:
		return old.Copy.Height*old.Copy.Depth == 1 && next.Copy.Height*next.Copy.Depth == 1
	case old.Type == gpubackend.NodeMemset && old.Fill != next.Fill:
		return old.Fill.Height == 1 && next.Fill.Height == 1
	case old.Type == gpubackend.NodeConditional:
		return old.Kind == next.Kind && old.Bodies == next.Bodies
	}
	return true
}

// compare says why an executable graph can't be updated with a graph, and which node of the graph
// is the reason. Nodes correspond in the order in which they were added.
func compare(own, g *graphs.Graph) (*graphs.Node, uint64) {
	if len(g.Nodes) != len(own.Nodes) {
		return nil, cudaabi.GraphExecUpdateErrorTopologyChanged
	}
	mine, other := positions(own), positions(g)
	for i, n := range g.Nodes {
		m := own.Nodes[i]
		switch {
		case n.What.Type != m.What.Type:
			return n, cudaabi.GraphExecUpdateErrorNodeTypeChanged
		case !slices.Equal(mine[i], other[i]):
			return n, cudaabi.GraphExecUpdateErrorTopologyChanged
		case n.Context != m.Context, n.Memory != m.Memory:
			return n, cudaabi.GraphExecUpdateErrorNotSupported
		case !updatable(&m.What, &n.What):
			return n, cudaabi.GraphExecUpdateErrorParametersChanged
		}
		for k, inner := range n.Inner {
			if _, why := compare(m.Inner[k], inner); why != cudaabi.GraphExecUpdateSuccess {
				return n, why
			}
		}
	}
	return nil, cudaabi.GraphExecUpdateSuccess
}

// positions are, for each node, those of the nodes that it comes after, sorted.
func positions(g *graphs.Graph) [][]int {
	at := make(map[*graphs.Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		at[n] = i
	}
	all := make([][]int, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, b := range n.After {
			all[i] = append(all[i], at[b])
		}
		slices.Sort(all[i])
	}
	return all
}

// update makes the nodes of an executable graph do what those of a graph of the same form do.
func (x *Exec) update(own, g *graphs.Graph) gpubackend.Result {
	if result := x.options.Graphs.Charge(g.Bytes() - own.Bytes()); result != gpubackend.Success {
		return result
	}
	x.replaceAll(own, g)
	return gpubackend.Success
}

func (x *Exec) replaceAll(own, g *graphs.Graph) {
	for i, n := range g.Nodes {
		m := own.Nodes[i]
		for k, inner := range n.Inner {
			x.replaceAll(m.Inner[k], inner)
		}
		if n.Condition != nil {
			x.options.Graphs.HoldCondition(n.Condition)
			x.options.Graphs.ReleaseCondition(m.Condition)
			m.Condition = n.Condition
		}
		if n.What.Type != gpubackend.NodeGraph {
			m.What = n.What
		}
	}
}

// GraphExecUpdate implements gpubackend.Driver.
func (x *Exec) GraphExecUpdate(h gpubackend.Graph, eh gpubackend.GraphExec) (
	bad, from gpubackend.GraphNode, why uint64, result gpubackend.Result,
) {
	g, result := x.options.Graphs.Find(h)
	if result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, result
	}
	e, result := x.executable(eh)
	if result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, result
	}
	if g.Owner != nil {
		return 0, 0, cudaabi.GraphExecUpdateSuccess, gpubackend.InvalidValue
	}
	n, why := compare(e.graph, g)
	if n != nil {
		bad = gpubackend.GraphNode(n.Handle)
	}
	if why != cudaabi.GraphExecUpdateSuccess {
		return bad, 0, why, gpubackend.GraphExecUpdateFailure
	}
	if _, result := g.CheckConditions(); result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, gpubackend.GraphExecUpdateFailure
	}
	if result := x.update(e.graph, g); result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, result
	}
	e.conditions = e.graph.AllConditions(nil)
	return 0, 0, cudaabi.GraphExecUpdateSuccess, gpubackend.Success
}

// GraphNodeSetEnabled implements gpubackend.Driver.
func (x *Exec) GraphNodeSetEnabled(
	h gpubackend.GraphExec, nh gpubackend.GraphNode, enabled uint64,
) gpubackend.Result {
	e, n, result := x.execNode(h, nh)
	if result != gpubackend.Success {
		return result
	}
	if !canBeDisabled(n) {
		return gpubackend.InvalidValue
	}
	if enabled != 0 {
		delete(e.disabled, n)
	} else {
		e.disabled[n] = true
	}
	return gpubackend.Success
}

func canBeDisabled(n *graphs.Node) bool {
	switch n.What.Type {
	case gpubackend.NodeKernel, gpubackend.NodeMemcpy, gpubackend.NodeMemset:
		return true
	}
	return false
}

// GraphNodeGetEnabled implements gpubackend.Driver.
func (x *Exec) GraphNodeGetEnabled(
	h gpubackend.GraphExec, nh gpubackend.GraphNode,
) (uint64, gpubackend.Result) {
	e, n, result := x.execNode(h, nh)
	if result != gpubackend.Success {
		return 0, result
	}
	if !canBeDisabled(n) {
		return 0, gpubackend.InvalidValue
	}
	if e.disabled[n] {
		return 0, gpubackend.Success
	}
	return 1, gpubackend.Success
}

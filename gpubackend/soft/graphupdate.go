// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// execNode finds an executable graph's own node for one of the graph that it was made of.
func (d *Device) execNode(h gpubackend.GraphExec, nh gpubackend.GraphNode) (*graphExec, *node, gpubackend.Result) {
	e, result := d.graphExec(h)
	if result != gpubackend.Success {
		return nil, nil, result
	}
	n, result := d.node(nh)
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
func (d *Device) GraphExecNodeSet(h gpubackend.GraphExec, nh gpubackend.GraphNode, what *gpubackend.Node) gpubackend.Result {
	_, n, result := d.execNode(h, nh)
	if result != gpubackend.Success {
		return result
	}
	if what.Type == gpubackend.NodeGraph && n.what.Type == gpubackend.NodeGraph {
		return d.setChild(n, what.Child)
	}
	if !updatable(&n.what, what) {
		return gpubackend.InvalidValue
	}
	return d.setNode(n, what)
}

// setChild updates a child graph of an executable graph with another of the same form.
func (d *Device) setChild(n *node, h gpubackend.Graph) gpubackend.Result {
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return result
	}
	if _, why := compare(n.inner[0], g); why != cudaabi.GraphExecUpdateSuccess {
		return gpubackend.InvalidValue
	}
	return d.update(n.inner[0], g)
}

// updatable says whether a node of an executable graph can be made do something else: copies and
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

// compare says why an executable graph can't be updated with a graph, and which node of that is the
// reason. Nodes correspond in the order in which they were added.
func compare(own, g *graph) (*node, uint64) {
	if len(g.nodes) != len(own.nodes) {
		return nil, cudaabi.GraphExecUpdateErrorTopologyChanged
	}
	mine, other := positions(own), positions(g)
	for i, n := range g.nodes {
		m := own.nodes[i]
		switch {
		case n.what.Type != m.what.Type:
			return n, cudaabi.GraphExecUpdateErrorNodeTypeChanged
		case !slices.Equal(mine[i], other[i]):
			return n, cudaabi.GraphExecUpdateErrorTopologyChanged
		case n.ctx != m.ctx, n.memory != m.memory:
			return n, cudaabi.GraphExecUpdateErrorNotSupported
		case !updatable(&m.what, &n.what):
			return n, cudaabi.GraphExecUpdateErrorParametersChanged
		}
		for k, inner := range n.inner {
			if _, why := compare(m.inner[k], inner); why != cudaabi.GraphExecUpdateSuccess {
				return n, why
			}
		}
	}
	return nil, cudaabi.GraphExecUpdateSuccess
}

// positions are, for each node, those of the nodes that it comes after, sorted.
func positions(g *graph) [][]int {
	at := make(map[*node]int, len(g.nodes))
	for i, n := range g.nodes {
		at[n] = i
	}
	all := make([][]int, len(g.nodes))
	for i, n := range g.nodes {
		for _, b := range n.after {
			all[i] = append(all[i], at[b])
		}
		slices.Sort(all[i])
	}
	return all
}

// update makes the nodes of an executable graph do what those of a graph of the same form do.
func (d *Device) update(own, g *graph) gpubackend.Result {
	if result := d.charge(g.bytes() - own.bytes()); result != gpubackend.Success {
		return result
	}
	d.replaceAll(own, g)
	return gpubackend.Success
}

func (d *Device) replaceAll(own, g *graph) {
	for i, n := range g.nodes {
		m := own.nodes[i]
		for k, inner := range n.inner {
			d.replaceAll(m.inner[k], inner)
		}
		if n.condition != nil {
			d.conditions.hold(n.condition)
			d.conditions.release(m.condition)
			m.condition = n.condition
		}
		if n.what.Type != gpubackend.NodeGraph {
			m.what = n.what
		}
	}
}

// GraphExecUpdate implements gpubackend.Driver.
func (d *Device) GraphExecUpdate(h gpubackend.Graph, eh gpubackend.GraphExec) (
	bad, from gpubackend.GraphNode, why uint64, result gpubackend.Result,
) {
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, result
	}
	e, result := d.graphExec(eh)
	if result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, result
	}
	if g.owner != nil {
		return 0, 0, cudaabi.GraphExecUpdateSuccess, gpubackend.InvalidValue
	}
	n, why := compare(e.graph, g)
	if n != nil {
		bad = gpubackend.GraphNode(n.handle)
	}
	if why != cudaabi.GraphExecUpdateSuccess {
		return bad, 0, why, gpubackend.GraphExecUpdateFailure
	}
	if _, result := g.checkConditions(); result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, gpubackend.GraphExecUpdateFailure
	}
	if result := d.update(e.graph, g); result != gpubackend.Success {
		return 0, 0, cudaabi.GraphExecUpdateError, result
	}
	e.conditions = e.graph.allConditions(nil)
	return 0, 0, cudaabi.GraphExecUpdateSuccess, gpubackend.Success
}

// GraphNodeSetEnabled implements gpubackend.Driver.
func (d *Device) GraphNodeSetEnabled(h gpubackend.GraphExec, nh gpubackend.GraphNode, enabled uint64) gpubackend.Result {
	e, n, result := d.execNode(h, nh)
	if result != gpubackend.Success {
		return result
	}
	if !n.canBeDisabled() {
		return gpubackend.InvalidValue
	}
	if enabled != 0 {
		delete(e.disabled, n)
	} else {
		e.disabled[n] = true
	}
	return gpubackend.Success
}

func (n *node) canBeDisabled() bool {
	switch n.what.Type {
	case gpubackend.NodeKernel, gpubackend.NodeMemcpy, gpubackend.NodeMemset:
		return true
	}
	return false
}

// GraphNodeGetEnabled implements gpubackend.Driver.
func (d *Device) GraphNodeGetEnabled(h gpubackend.GraphExec, nh gpubackend.GraphNode) (uint64, gpubackend.Result) {
	e, n, result := d.execNode(h, nh)
	if result != gpubackend.Success {
		return 0, result
	}
	if !n.canBeDisabled() {
		return 0, gpubackend.InvalidValue
	}
	if e.disabled[n] {
		return 0, gpubackend.Success
	}
	return 1, gpubackend.Success
}

// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Why graphs can't be made again.
var (
	errCaptured = errors.New("a stream is captured into a graph")
	errGone     = errors.New("a graph names memory, a function or an event that is gone")
)

// FixedGraphs implements gpubackend.SavingGraphs: all can be made again.
func (x *Graphs) FixedGraphs() int { return 0 }

// States are what graphs are, and what all graphs, executable ones too, have of conditions and
// memory.
func (x *Graphs) States(graphs []gpubackend.Graph) (*gpubackend.GraphStates, error) {
	all := &gpubackend.GraphStates{
		Conditions: x.conditionStates(), Memory: x.memoryStates(), Peaks: x.peaks(),
	}
	for _, h := range graphs {
		g, result := x.Find(h)
		if result != gpubackend.Success {
			return nil, result.Err()
		}
		if g.busy() {
			return nil, errCaptured
		}
		s, err := x.State(g)
		if err != nil {
			return nil, err
		}
		all.Graphs = append(all.Graphs, *s)
	}
	return all, nil
}

func (x *Graphs) conditionStates() (list []gpubackend.ConditionState) {
	x.conditions.mu.RLock()
	defer x.conditions.mu.RUnlock()
	for _, c := range x.conditions.all {
		s := gpubackend.ConditionState{
			Handle: c.handle, Initial: c.Initial, Value: c.Value.Load(), Assign: c.Assign,
		}
		if g, _ := x.Find(gpubackend.Graph(c.graph.Handle)); g == c.graph {
			s.Graph = gpubackend.Graph(g.Handle)
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b gpubackend.ConditionState) int {
		return cmp.Compare(a.Handle, b.Handle)
	})
	return list
}

func (x *Graphs) memoryStates() (list []gpubackend.GraphMemory) {
	for _, address := range slices.Sorted(maps.Keys(x.memory)) {
		m := x.memory[address]
		list = append(list, gpubackend.GraphMemory{
			Address: address, Bytes: m.bytes, Context: m.Context.Handle(), Live: m.live,
		})
	}
	return list
}

func (x *Graphs) peaks() (list []gpubackend.GraphMemoryPeak) {
	for _, gpu := range slices.Sorted(maps.Keys(x.uses)) {
		u := x.uses[gpu]
		list = append(list, gpubackend.GraphMemoryPeak{
			Device: uint64(gpu), Used: u[cudaabi.GraphMemAttrUsedMemHigh],
			Reserved: u[cudaabi.GraphMemAttrReservedMemHigh],
		})
	}
	return list
}

// State is one graph.
func (x *Graphs) State(g *Graph) (*gpubackend.GraphState, error) {
	s := &gpubackend.GraphState{Graph: gpubackend.Graph(g.Handle)}
	at := make(map[*Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		at[n] = i
	}
	for _, n := range g.Nodes {
		m, err := x.nodeState(n)
		if err != nil {
			return nil, err
		}
		for _, b := range n.After {
			m.After = append(m.After, at[b])
		}
		s.Nodes = append(s.Nodes, m)
	}
	return s, nil
}

func (x *Graphs) nodeState(n *Node) (s gpubackend.NodeState, err error) {
	s = gpubackend.NodeState{
		Node: gpubackend.GraphNode(n.Handle), Context: n.Context.Handle(), What: n.What,
	}
	if o := n.Origin; o != nil {
		if there, _ := x.FindNode(gpubackend.GraphNode(o.Handle)); there == o {
			s.Origin = gpubackend.GraphNode(o.Handle)
		}
	}
	switch n.What.Type {
	case gpubackend.NodeGraph:
		s.Child, err = x.State(n.Inner[0])
	case gpubackend.NodeConditional:
		for _, g := range n.Inner {
			body, err := x.State(g)
			if err != nil {
				return s, err
			}
			s.Bodies = append(s.Bodies, body)
		}
	case gpubackend.NodeMemAlloc:
		if x.memory[n.What.Address] != n.Memory {
			err = errGone
		}
	default:
		if x.checkNode(&n.What) != gpubackend.Success {
			err = errGone
		}
	}
	return s, err
}

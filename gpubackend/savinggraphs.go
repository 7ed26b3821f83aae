// SPDX-License-Identifier: Apache-2.0

package gpubackend

// GraphState is a graph, as another device can make it again.
type GraphState struct {
	Graph Graph       // 0 within an executable graph
	Nodes []NodeState // in the order in which they were added
}

// NodeState is a node of a graph.
type NodeState struct {
	Node     GraphNode // 0 within an executable graph
	Origin   GraphNode // the node of which it is a copy; 0: none, or one that is gone
	Context  Context
	What     Node        // without its child graph
	After    []int       // numbers of the nodes that it comes after
	Edges    []byte      // CUgraphEdgeData of each of these; none: all are zero
	Child    *GraphState // of a node that has one
	Disabled bool        // in an executable graph
}

// ExecState is an executable graph.
type ExecState struct {
	Exec   GraphExec
	Source Graph // the graph from which it was made; 0: that is gone
	Flags  uint64
	Graph  GraphState // the nodes that it has now
}

// SavingGraphs makes the same graphs on another device.
type SavingGraphs interface {
	// FixedGraphs is how many things in graphs can't be made again; -1: no graph can.
	FixedGraphs() int
	// SaveGraphs reads graphs that lie in no other, and executable ones: all that there are.
	SaveGraphs(graphs []Graph, execs []GraphExec) ([]GraphState, []ExecState, error)
	// RestoreGraphs makes them. It replaces the handles of graphs and nodes, which are those of the
	// saved device, by its own; all other handles are its own already. After an error the device
	// can't be used.
	RestoreGraphs(graphs []GraphState, execs []ExecState) Result
}

// FixedGraphs implements SavingGraphs.
func (Unsaved) FixedGraphs() int { return -1 }

// SaveGraphs implements SavingGraphs.
func (Unsaved) SaveGraphs([]Graph, []GraphExec) ([]GraphState, []ExecState, error) {
	return nil, nil, NotSupported.Err()
}

// RestoreGraphs implements SavingGraphs.
func (Unsaved) RestoreGraphs([]GraphState, []ExecState) Result { return NotSupported }

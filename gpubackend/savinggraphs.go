// SPDX-License-Identifier: Apache-2.0

package gpubackend

// GraphState is a graph, as another device can make it again.
type GraphState struct {
	Graph Graph       // 0 within an executable graph
	Nodes []NodeState // in the order in which they were added
}

// NodeState is a node of one.
type NodeState struct {
	Node     GraphNode // 0 within an executable graph
	Origin   GraphNode // what it is a copy of; 0: nothing, or that is gone
	Context  Context
	What     Node        // but for its child graph
	After    []int       // numbers of the nodes that it comes after
	Child    *GraphState // of a node that has one
	Disabled bool        // in an executable graph
}

// ExecState is an executable graph.
type ExecState struct {
	Exec   GraphExec
	Source Graph // what it was made of; 0: that is gone
	Flags  uint64
	Graph  GraphState // the nodes that it has by now
}

// SavingGraphs has another device have the same graphs.
type SavingGraphs interface {
	// FixedGraphs is how much in graphs can't be made again; -1: no graph can.
	FixedGraphs() int
	// SaveGraphs lists the graphs that lie in no other, and the executable ones.
	SaveGraphs() ([]GraphState, []ExecState, error)
	// RestoreGraphs makes them. Handles of graphs and nodes are those of the device that was saved,
	// and the device's own afterwards; all others are the device's own. After an error the device
	// is of no more use.
	RestoreGraphs(graphs []GraphState, execs []ExecState) Result
}

// FixedGraphs implements SavingGraphs.
func (Unsaved) FixedGraphs() int { return -1 }

// SaveGraphs implements SavingGraphs.
func (Unsaved) SaveGraphs() ([]GraphState, []ExecState, error) {
	return nil, nil, NotSupported.Err()
}

// RestoreGraphs implements SavingGraphs.
func (Unsaved) RestoreGraphs([]GraphState, []ExecState) Result { return NotSupported }

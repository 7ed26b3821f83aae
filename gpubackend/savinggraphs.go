// SPDX-License-Identifier: Apache-2.0

package gpubackend

// GraphStates are all graphs of a device, as another device can make them again.
type GraphStates struct {
	Graphs     []GraphState // that lie in no other
	Execs      []ExecState
	Conditions []ConditionState
	Memory     []GraphMemory
	Peaks      []GraphMemoryPeak
}

// GraphState is a graph.
type GraphState struct {
	Graph Graph       // 0 within an executable graph
	Nodes []NodeState // in the order in which they were added
}

// NodeState is a node of a graph.
type NodeState struct {
	Node     GraphNode // 0 within an executable graph
	Origin   GraphNode // the node of which it is a copy; 0: none, or one that is gone
	Context  Context
	What     Node          // without its child graph
	After    []int         // numbers of the nodes that it comes after
	Edges    []byte        // CUgraphEdgeData of each of these; none: all are zero
	Child    *GraphState   // of a child graph's node
	Bodies   []*GraphState // of a conditional node
	Disabled bool          // in an executable graph
}

// ExecState is an executable graph.
type ExecState struct {
	Exec   GraphExec
	Source Graph // the graph from which it was made; 0: that is gone
	Flags  uint64
	Graph  GraphState // the nodes that it has now
}

// Inner are the graphs in a node.
func (n *NodeState) Inner() []*GraphState {
	if n.Child != nil {
		return []*GraphState{n.Child}
	}
	return n.Bodies
}

// ConditionState is a condition. Kernels have its handle, so it stays the same.
type ConditionState struct {
	Handle         uint64
	Graph          Graph // for which it was made; 0: that is gone
	Initial, Value uint32
	Assign         bool // each launch begins with the initial value
}

// GraphMemory is what nodes of graphs allocate, or have allocated.
type GraphMemory struct {
	Address, Bytes uint64
	Context        Context
	Live           bool // it is allocated now
}

// GraphMemoryPeak is the most memory of graphs that a GPU has had: allocated, and reserved.
type GraphMemoryPeak struct{ Device, Used, Reserved uint64 }

// SavingGraphs makes the same graphs on another device.
type SavingGraphs interface {
	// FixedGraphs is how many things in graphs can't be made again; -1: no graph can.
	FixedGraphs() int
	// SaveGraphs reads graphs that lie in no other, and executable ones: all that there are.
	SaveGraphs(graphs []Graph, execs []GraphExec) (*GraphStates, error)
	// RestoreGraphs makes them. It replaces the handles of graphs and nodes, which are those of the
	// saved device, by its own; all other handles are its own already. After an error the device
	// can't be used.
	RestoreGraphs(s *GraphStates) Result
	// RenewGraphs is told that memory of the host's was registered anew since graphs, these in no
	// other, were restored. Nothing was done with them meanwhile. It returns the new handles of
	// executable graphs that it has made again, by the old ones. After an error the device can't be
	// used.
	RenewGraphs(graphs []Graph) (execs map[GraphExec]GraphExec, r Result)
}

// FixedGraphs implements SavingGraphs.
func (Unsaved) FixedGraphs() int { return -1 }

// SaveGraphs implements SavingGraphs.
func (Unsaved) SaveGraphs([]Graph, []GraphExec) (*GraphStates, error) {
	return nil, NotSupported.Err()
}

// RestoreGraphs implements SavingGraphs.
func (Unsaved) RestoreGraphs(*GraphStates) Result { return NotSupported }

// RenewGraphs implements SavingGraphs.
func (Unsaved) RenewGraphs([]Graph) (map[GraphExec]GraphExec, Result) { return nil, NotSupported }

// SPDX-License-Identifier: Apache-2.0

package gpubackend

// Capturing has what a driver offers for streams that are being captured, and for graphs, besides
// the functions that are described.
type Capturing interface {
	// HostFuncKept puts a host function into a stream that is being captured, or may be. Whenever
	// it is due, f is called on any goroutine; the stream goes on when f's release is called.
	HostFuncKept(s Stream, token uint64, f HostCall) Result
	// GraphFree frees, in stream order, memory that a graph allocated: only the driver knows when
	// it may be used again. NotFound: no graph has it. MemFree frees such memory at once.
	GraphFree(address uint64, s Stream) Result
}

// HostCall is called when a host function of a graph is due.
type HostCall func(token uint64, release func())

// HostFuncKept returns NotSupported.
func (Unsupported) HostFuncKept(Stream, uint64, HostCall) Result { return NotSupported }

// GraphFree returns NotFound.
func (Unsupported) GraphFree(uint64, Stream) Result { return NotFound }

// NodeType is CUgraphNodeType.
type NodeType uint32

// The types of nodes.
const (
	NodeKernel      NodeType = 0
	NodeMemcpy      NodeType = 1
	NodeMemset      NodeType = 2
	NodeHost        NodeType = 3
	NodeGraph       NodeType = 4
	NodeEmpty       NodeType = 5
	NodeEventWait   NodeType = 6
	NodeEventRecord NodeType = 7
	NodeMemAlloc    NodeType = 10
	NodeMemFree     NodeType = 11
	NodeMemOps      NodeType = 12
	NodeConditional NodeType = 13
)

// Node is what a node of a graph does: its type says which fields are used.
type Node struct {
	Type NodeType

	Launch Launch // kernel; the stream and attributes aren't used
	Copy   Box    // memcpy
	Fill   Fill   // memset

	Token uint64   // host function
	Call  HostCall // the same

	Child Graph  // child graph
	Moved bool   // the child graph itself becomes part of the node, and isn't copied
	Event Event  // event wait, event record
	Flags uint64 // memory operations

	Bytes   uint64 // allocation
	Address uint64 // allocation (answered), free
	Pool    []byte // allocation: CUmemPoolProps
	Access  []byte // allocation: CUmemAccessDesc, 12 bytes each
	Ops     []byte // memory operations: CUstreamBatchMemOpParams, 48 bytes each

	Handle uint64 // conditional: CUgraphConditionalHandle
	Kind   uint64 // conditional: CUgraphConditionalNodeType
	Bodies uint64 // conditional: how many graphs
}

// Fill describes a memset: height rows of width elements.
type Fill struct {
	Dst, Pitch     uint64
	Value, Element uint64 // bytes of an element: 1, 2 or 4
	Width, Height  uint64
}

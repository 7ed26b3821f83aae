// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
	"github.com/paracuda/paracuda/gpubackend/worker/hostfuncs"
	"github.com/paracuda/paracuda/gpubackend/worker/known"
)

// DecodeNode reads a record (docs/commands.md, "Records") and looks up the handles in it.
func (s *Graphs) DecodeNode(c *call.Call, i int) (*gpubackend.Node, gpubackend.Result) {
	b, result := c.Input(i)
	if result != gpubackend.Success {
		return nil, result
	}
	kind, ok := command.Tag(b)
	if !ok {
		return nil, gpubackend.InvalidValue
	}
	decode := nodeDecoders[kind]
	if decode == nil {
		return nil, gpubackend.NotSupported
	}
	n := &gpubackend.Node{Type: gpubackend.NodeType(kind)}
	return n, decode(s, c, n, b)
}

// nodeDecoders read the record of each type.
var nodeDecoders = map[uint64]func(s *Graphs, c *call.Call, n *gpubackend.Node,
	b []byte) gpubackend.Result{
	command.NodeKernelTag:      decoded(command.DecodeNodeKernel, (*Graphs).kernelNode),
	command.NodeMemcpyTag:      decoded(command.DecodeNodeMemcpy, (*Graphs).memcpyNode),
	command.NodeMemsetTag:      decoded(command.DecodeNodeMemset, (*Graphs).memsetNode),
	command.NodeHostTag:        decoded(command.DecodeNodeHost, (*Graphs).hostNode),
	command.NodeGraphTag:       decoded(command.DecodeNodeGraph, (*Graphs).graphNode),
	command.NodeEmptyTag:       decoded(command.DecodeNodeEmpty, (*Graphs).emptyNode),
	command.NodeEventWaitTag:   decoded(command.DecodeNodeEventWait, (*Graphs).eventWaitNode),
	command.NodeEventRecordTag: decoded(command.DecodeNodeEventRecord, (*Graphs).eventRecordNode),
	command.NodeMemAllocTag:    decoded(command.DecodeNodeMemAlloc, (*Graphs).memAllocNode),
	command.NodeMemFreeTag:     decoded(command.DecodeNodeMemFree, (*Graphs).memFreeNode),
	command.NodeMemOpsTag:      decoded(command.DecodeNodeMemOps, (*Graphs).memOpsNode),
	command.NodeConditionalTag: decoded(command.DecodeNodeConditional, (*Graphs).conditionalNode),
}

// decoded reads a record that package command decodes.
func decoded[R any](
	decode func([]byte) (R, bool),
	node func(*Graphs, *call.Call, *gpubackend.Node, R) gpubackend.Result,
) func(*Graphs, *call.Call, *gpubackend.Node, []byte) gpubackend.Result {
	return func(s *Graphs, c *call.Call, n *gpubackend.Node, b []byte) gpubackend.Result {
		r, ok := decode(b)
		if !ok {
			return gpubackend.InvalidValue
		}
		return node(s, c, n, r)
	}
}

func (s *Graphs) kernelNode(
	c *call.Call, n *gpubackend.Node, r command.NodeKernel,
) (result gpubackend.Result) {
	n.Launch.Grid = [3]uint32{r.GridX, r.GridY, r.GridZ}
	n.Launch.Block = [3]uint32{r.BlockX, r.BlockY, r.BlockZ}
	n.Launch.Shared, n.Launch.Parameters = uint32(r.Shared), r.Parameters
	n.Launch.Function, result = s.Kernels.Find(c, r.Function)
	return result
}

func (s *Graphs) memcpyNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeMemcpy,
) gpubackend.Result {
	n.Copy = gpubackend.Box(r)
	return gpubackend.Success
}

func (s *Graphs) memsetNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeMemset,
) gpubackend.Result {
	n.Fill = gpubackend.Fill(r)
	return gpubackend.Success
}

func (s *Graphs) hostNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeHost,
) (result gpubackend.Result) {
	if r.Token&hostfuncs.KeptToken == 0 {
		return gpubackend.InvalidValue
	}
	n.Token = r.Token
	n.Call, result = s.Keep(r.Token)
	return result
}

func (s *Graphs) graphNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeGraph,
) (result gpubackend.Result) {
	n.Moved = r.Moved == 1
	n.Child, result = handles.Graph(s.Objects, r.Graph)
	return result
}

func (s *Graphs) emptyNode(*call.Call, *gpubackend.Node, command.NodeEmpty) gpubackend.Result {
	return gpubackend.Success
}

func (s *Graphs) eventWaitNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeEventWait,
) (result gpubackend.Result) {
	n.Event, result = handles.Event(s.Objects, r.Event)
	return result
}

func (s *Graphs) eventRecordNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeEventRecord,
) (result gpubackend.Result) {
	n.Event, result = handles.Event(s.Objects, r.Event)
	return result
}

func (s *Graphs) memAllocNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeMemAlloc,
) gpubackend.Result {
	if result := known.PlainPool(r.Pool); result != gpubackend.Success {
		return result
	}
	n.Bytes, n.Address, n.Pool, n.Access = r.Bytes, r.Address, r.Pool, r.Access
	return gpubackend.Success
}

func (s *Graphs) memFreeNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeMemFree,
) gpubackend.Result {
	n.Address = r.Address
	return gpubackend.Success
}

func (s *Graphs) memOpsNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeMemOps,
) gpubackend.Result {
	if result := known.Ops(r.Ops); result != gpubackend.Success {
		return result
	}
	n.Flags, n.Ops = r.Flags, r.Ops
	return gpubackend.Success
}

func (s *Graphs) conditionalNode(
	_ *call.Call, n *gpubackend.Node, r command.NodeConditional,
) gpubackend.Result {
	n.Handle, n.Kind, n.Bodies = r.Handle, r.Kind, r.Bodies
	return gpubackend.Success
}

// EncodeNode puts the record of a node, which has that handle, into the guest's buffer, as much as
// fits, and returns its size.
func (s *Graphs) EncodeNode(to []byte, n *gpubackend.Node, handle uint64) uint64 {
	if n == nil {
		return 0
	}
	b := s.nodeRecord(n, handle).Append(nil)
	copy(to, b)
	return uint64(len(b))
}

// nodeRecord is the record of a node, with the guest's handles.
func (s *Graphs) nodeRecord(n *gpubackend.Node, handle uint64) interface{ Append([]byte) []byte } {
	switch n.Type {
	case gpubackend.NodeKernel:
		return kernelRecord(&n.Launch, s.Kernels.Name(n.Launch.Function))
	case gpubackend.NodeMemcpy:
		r := command.NodeMemcpy(n.Copy)
		return &r
	case gpubackend.NodeMemset:
		r := command.NodeMemset(n.Fill)
		return &r
	case gpubackend.NodeHost:
		return &command.NodeHost{Token: n.Token}
	case gpubackend.NodeGraph:
		return &command.NodeGraph{Graph: s.nameChild(n.Child, handle)}
	case gpubackend.NodeEventWait:
		return &command.NodeEventWait{Event: s.Objects.Existing(object.Event, uint64(n.Event))}
	case gpubackend.NodeEventRecord:
		return &command.NodeEventRecord{Event: s.Objects.Existing(object.Event, uint64(n.Event))}
	case gpubackend.NodeMemAlloc:
		r := &command.NodeMemAlloc{
			Bytes: n.Bytes, Address: n.Address,
			AccessCount: uint64(len(n.Access) / cudaabi.MemAccessDescSize), Pool: n.Pool,
			Access: n.Access,
		}
		if len(r.Pool) != cudaabi.MemPoolPropsSize {
			r.Pool = make([]byte, cudaabi.MemPoolPropsSize) // the device doesn't tell it
		}
		return r
	case gpubackend.NodeMemFree:
		return &command.NodeMemFree{Address: n.Address}
	case gpubackend.NodeMemOps:
		return &command.NodeMemOps{Count: uint64(len(n.Ops) / cudaabi.StreamBatchMemOpParamsSize),
			Flags: n.Flags, Ops: n.Ops}
	}
	return otherNode(n.Type)
}

func kernelRecord(l *gpubackend.Launch, function uint64) *command.NodeKernel {
	return &command.NodeKernel{
		Function: function, GridX: l.Grid[0], GridY: l.Grid[1], GridZ: l.Grid[2],
		BlockX: l.Block[0], BlockY: l.Block[1], BlockZ: l.Block[2], Shared: uint64(l.Shared),
		ParameterBytes: uint64(len(l.Parameters)), Parameters: l.Parameters,
	}
}

// otherNode is the record of a node whose type has no fields: only its type.
type otherNode gpubackend.NodeType

func (o otherNode) Append(b []byte) []byte { return command.AppendTag(b, uint64(o)) }

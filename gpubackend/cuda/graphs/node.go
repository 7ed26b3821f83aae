// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// nodeParams is where encode puts what CUgraphNodeParams points to: behind it.
const nodeParams = cudaabi.GraphNodeParamsSize

// GraphAddNode adds a node of any type.
func (x *Graphs) GraphAddNode(
	g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, n *gpubackend.Node,
) (
	node gpubackend.GraphNode, address uint64, bodies []gpubackend.Graph, r gpubackend.Result,
) {
	if !driver.EdgesFit(edges, len(after)) {
		return 0, 0, nil, gpubackend.InvalidValue
	}
	if r = x.noteAllocation(n); r != gpubackend.Success {
		return 0, 0, nil, r
	}
	m, r := x.encode(n)
	if r != gpubackend.Success {
		return 0, 0, nil, r
	}
	defer m.Free()
	if node, r = x.calls.GraphAdd(g, after, edges, m); r != gpubackend.Success {
		return 0, 0, nil, r
	}
	switch n.Type {
	case gpubackend.NodeMemAlloc:
		address = cudaabi.GraphNodeParams(m.Bytes()).Alloc().Dptr()
		x.ranges.OfGPUs.Put(copyable.Span{Base: address, Bytes: n.Bytes, Writable: true})
	case gpubackend.NodeConditional:
		at := cudaabi.GraphNodeParams(m.Bytes()).Conditional().PhGraphOut()
		for _, b := range cmem.WordsAt(at, n.Bodies) {
			bodies = append(bodies, gpubackend.Graph(b))
		}
	}
	return node, address, bodies, r
}

// GraphNodeSet changes a node.
func (x *Graphs) GraphNodeSet(node gpubackend.GraphNode, n *gpubackend.Node) gpubackend.Result {
	m, r := x.encode(n)
	if r != gpubackend.Success {
		return r
	}
	defer m.Free()
	return x.calls.GraphNodeSetParams(node, m)
}

// GraphExecNodeSet changes a node of an executable graph.
func (x *Graphs) GraphExecNodeSet(
	exec gpubackend.GraphExec, node gpubackend.GraphNode, n *gpubackend.Node,
) gpubackend.Result {
	m, r := x.encode(n)
	if r != gpubackend.Success {
		return r
	}
	defer m.Free()
	return x.calls.GraphExecNodeSetParams(exec, node, m)
}

// Check says whether a node can be what it is now: whether its memory is still there.
func (x *Graphs) Check(n *gpubackend.Node) gpubackend.Result {
	m, r := x.encode(n)
	if r == gpubackend.Success {
		m.Free()
	}
	return r
}

// OnHost says whether a node copies, fills or looks at memory of the host's.
func (x *Graphs) OnHost(n *gpubackend.Node) bool {
	switch n.Type {
	case gpubackend.NodeMemcpy:
		return x.onHost(n.Copy.Dst) || x.onHost(n.Copy.Src)
	case gpubackend.NodeMemset:
		return x.onHost(n.Fill.Dst)
	case gpubackend.NodeMemOps:
		const size = cudaabi.StreamBatchMemOpParamsSize
		for ops := n.Ops; len(ops) >= size; ops = ops[size:] {
			// one that writes has its address at the same place
			if x.onHost(cudaabi.StreamBatchMemOpParams(ops).WaitValueAddress()) {
				return true
			}
		}
	}
	return false
}

func (x *Graphs) onHost(addr uint64) bool { return x.ranges.Host.Cover(addr, 1, false) }

// encode makes CUgraphNodeParams, and behind it what it points to.
func (x *Graphs) encode(n *gpubackend.Node) (cmem.Memory, gpubackend.Result) {
	tail := len(n.Access) + len(n.Ops) + len(n.Launch.Parameters)
	var offsets []uint32
	if n.Type == gpubackend.NodeKernel {
		// An attribute that needs pointers may be set later.
		offsets = x.calls.FuncOffsets(n.Launch.Function, n.Launch.Parameters)
		tail += 8 * len(offsets)
	}
	m := cmem.Allocate(nodeParams + extraBytes + tail)
	p := cudaabi.GraphNodeParams(m.Bytes())
	p.SetType(uint32(n.Type))
	r := gpubackend.Success
	switch n.Type {
	case gpubackend.NodeKernel:
		encodeKernel(m, &n.Launch, offsets)
	case gpubackend.NodeMemcpy:
		p.Memcpy().SetCopyCtx(uint64(x.contexts.CurrentHandle()))
		r = x.encodeCopy(p.Memcpy().CopyParams(), &n.Copy)
	case gpubackend.NodeMemset:
		r = x.encodeFill(p.Memset(), &n.Fill)
	case gpubackend.NodeHost:
		var function, data uint64
		function, data, r = x.needs.HostNode(n.Token, n.Call)
		p.Host().SetFn(function)
		p.Host().SetUserData(data)
	case gpubackend.NodeGraph:
		p.Graph().SetGraph(uint64(n.Child))
		if n.Moved {
			p.Graph().SetOwnership(cudaabi.ChildGraphOwnershipMove)
		}
	case gpubackend.NodeEventWait, gpubackend.NodeEventRecord:
		p.EventWait().SetEvent(uint64(n.Event)) // a record node's is at the same place
	case gpubackend.NodeConditional:
		r = x.encodeConditional(p.Conditional(), n)
	default:
		x.encodeMemory(m, n)
	}
	if r != gpubackend.Success {
		m.Free()
	}
	return m, r
}

// encodeMemory writes nodes that allocate, free or look at memory.
func (x *Graphs) encodeMemory(m cmem.Memory, n *gpubackend.Node) {
	p, behind := cudaabi.GraphNodeParams(m.Bytes()), m.Address()+nodeParams
	switch n.Type {
	case gpubackend.NodeMemAlloc:
		a := p.Alloc()
		copy(a.PoolProps(), n.Pool)
		a.SetAccessDescs(behind)
		a.SetAccessDescCount(uint64(len(n.Access) / cudaabi.MemAccessDescSize))
		a.SetBytesize(n.Bytes)
		copy(m.Bytes()[nodeParams:], n.Access)
	case gpubackend.NodeMemFree:
		p.Free().SetDptr(n.Address)
	case gpubackend.NodeMemOps:
		o := p.MemOp()
		o.SetCtx(uint64(x.contexts.CurrentHandle()))
		o.SetCount(uint32(len(n.Ops) / cudaabi.StreamBatchMemOpParamsSize))
		o.SetParamArray(behind)
		o.SetFlags(uint32(n.Flags))
		copy(m.Bytes()[nodeParams:], n.Ops)
	}
}

func (x *Graphs) encodeFill(p cudaabi.MemsetNodeParamsV2, f *gpubackend.Fill) gpubackend.Result {
	at, r := x.ranges.Fill(f.Dst, f.Pitch, f.Element, f.Width, f.Height)
	p.SetDst(at)
	p.SetPitch(f.Pitch)
	p.SetValue(uint32(f.Value))
	p.SetElementSize(uint32(f.Element))
	p.SetWidth(f.Width)
	p.SetHeight(f.Height)
	p.SetCtx(uint64(x.contexts.CurrentHandle()))
	return r
}

func (x *Graphs) encodeConditional(
	p cudaabi.ConditionalNodeParams, n *gpubackend.Node,
) gpubackend.Result {
	if n.Bodies > cudaabi.MaxConditionalBodies {
		return gpubackend.InvalidValue
	}
	p.SetHandle(n.Handle)
	p.SetType(uint32(n.Kind))
	p.SetSize(uint32(n.Bodies))
	p.SetCtx(uint64(x.contexts.CurrentHandle()))
	return gpubackend.Success
}

// What lies before a kernel's packed parameters: the list that describes them, which ends with a
// word, and the number of their bytes.
const (
	extraSizeAt = 48
	extraBytes  = 64
)

// encodeKernel writes CUDA_KERNEL_NODE_PARAMS, with pointers to the parameters where their offsets
// are known.
func encodeKernel(m cmem.Memory, l *gpubackend.Launch, offsets []uint32) {
	p := cudaabi.GraphNodeParams(m.Bytes()).Kernel()
	p.SetFunc(uint64(l.Function))
	p.SetGridDimX(l.Grid[0])
	p.SetGridDimY(l.Grid[1])
	p.SetGridDimZ(l.Grid[2])
	p.SetBlockDimX(l.Block[0])
	p.SetBlockDimY(l.Block[1])
	p.SetBlockDimZ(l.Block[2])
	p.SetSharedMemBytes(l.Shared)
	if len(l.Parameters) == 0 {
		return
	}
	at := m.Address() + nodeParams
	if len(offsets) > 0 {
		p.SetKernelParams(at)
		pointers := 8 * len(offsets)
		driver.PutPointers(m.Bytes()[nodeParams:], at+uint64(pointers), offsets)
		copy(m.Bytes()[nodeParams+pointers:], l.Parameters)
		return
	}
	p.SetExtra(at)
	extra := m.Bytes()[nodeParams:]
	for i, word := range []uint64{
		cudaabi.LaunchParamBufferPointer, at + extraBytes,
		cudaabi.LaunchParamBufferSize, at + extraSizeAt,
		cudaabi.LaunchParamEnd,
	} {
		binary.NativeEndian.PutUint64(extra[8*i:], word)
	}
	binary.NativeEndian.PutUint64(extra[extraSizeAt:], uint64(len(l.Parameters)))
	copy(extra[extraBytes:], l.Parameters)
}

// encodeCopy writes CUDA_MEMCPY3D.
func (x *Graphs) encodeCopy(p cudaabi.Memcpy3D, b *gpubackend.Box) gpubackend.Result {
	rows := *b
	rows.DstPitch, rows.SrcPitch = max(b.DstPitch, b.Width), max(b.SrcPitch, b.Width)
	if b.Width == 0 || b.Height > gpubackend.Addresses || b.DstSlice%rows.DstPitch != 0 ||
		b.SrcSlice%rows.SrcPitch != 0 {
		return gpubackend.InvalidValue
	}
	if b.Depth <= 1 { // no slices
		rows.DstSlice, rows.SrcSlice = max(b.DstSlice/rows.DstPitch, b.Height)*rows.DstPitch,
			max(b.SrcSlice/rows.SrcPitch, b.Height)*rows.SrcPitch
	}
	to, from, r := x.ranges.Box(&rows)
	if r == gpubackend.Success {
		copies.Put3D(p, &rows, to, from)
	}
	return r
}

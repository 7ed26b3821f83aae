// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/reach"
)

// Layout of CUgraphNodeParams: the type, then the parameters of that type.
const (
	nodeParams  = 256
	nodeUnion   = 16
	memOpBytes  = 48
	poolBytes   = 88
	accessBytes = 12
	MaxBodies   = 64
)

// GraphAddNode adds a node of any type.
func (x *Graphs) GraphAddNode(g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, n *gpubackend.Node) (
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
		address = binary.NativeEndian.Uint64(m.Bytes()[nodeUnion+112:])
		x.ranges.OfGPUs.Put(reach.Span{Base: address, Bytes: n.Bytes, Writable: true})
	case gpubackend.NodeConditional:
		for _, b := range cmem.WordsAt(binary.NativeEndian.Uint64(m.Bytes()[nodeUnion+16:]), n.Bodies) {
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
func (x *Graphs) GraphExecNodeSet(exec gpubackend.GraphExec, node gpubackend.GraphNode, n *gpubackend.Node) gpubackend.Result {
	m, r := x.encode(n)
	if r != gpubackend.Success {
		return r
	}
	defer m.Free()
	return x.calls.GraphExecNodeSetParams(exec, node, m)
}

// encode makes CUgraphNodeParams, and behind it what it points to.
func (x *Graphs) encode(n *gpubackend.Node) (cmem.Block, gpubackend.Result) {
	tail := len(n.Access) + len(n.Ops) + len(n.Launch.Parameters)
	var offsets []uint32
	if n.Type == gpubackend.NodeKernel {
		// An attribute that wants pointers may be set later.
		offsets = x.calls.FuncOffsets(n.Launch.Function, n.Launch.Parameters)
		tail += 8 * len(offsets)
	}
	m := cmem.Allocate(nodeParams + 64 + tail)
	put := func(offset int, v uint64) { binary.NativeEndian.PutUint64(m.Bytes()[nodeUnion+offset:], v) }
	put32 := func(offset int, v uint64) { binary.NativeEndian.PutUint32(m.Bytes()[nodeUnion+offset:], uint32(v)) }
	binary.NativeEndian.PutUint32(m.Bytes(), uint32(n.Type))
	r := gpubackend.Success
	switch n.Type {
	case gpubackend.NodeKernel:
		encodeKernel(m, &n.Launch, offsets)
	case gpubackend.NodeMemcpy:
		put(8, uint64(x.contexts.CurrentHandle()))
		r = x.encodeCopy(m.Bytes()[nodeUnion+16:], &n.Copy)
	case gpubackend.NodeMemset:
		f := &n.Fill
		r = x.ranges.Fill(f.Dst, f.Pitch, f.Element, f.Width, f.Height)
		put(0, f.Dst)
		put(8, f.Pitch)
		put32(16, f.Value)
		put32(20, f.Element)
		put(24, f.Width)
		put(32, f.Height)
		put(40, uint64(x.contexts.CurrentHandle()))
	case gpubackend.NodeHost:
		var function, data uint64
		function, data, r = x.needs.HostNode(n.Token, n.Call)
		put(0, function)
		put(8, data)
	case gpubackend.NodeGraph:
		put(0, uint64(n.Child))
		if n.Moved {
			put32(8, 1)
		}
	case gpubackend.NodeEventWait, gpubackend.NodeEventRecord:
		put(0, uint64(n.Event))
	case gpubackend.NodeMemAlloc:
		copy(m.Bytes()[nodeUnion:], n.Pool)
		put(88, m.Address()+nodeParams)
		put(96, uint64(len(n.Access)/accessBytes))
		put(104, n.Bytes)
		copy(m.Bytes()[nodeParams:], n.Access)
	case gpubackend.NodeMemFree:
		put(0, n.Address)
	case gpubackend.NodeMemOps:
		put(0, uint64(x.contexts.CurrentHandle()))
		put32(8, uint64(len(n.Ops)/memOpBytes))
		put(16, m.Address()+nodeParams)
		put32(24, n.Flags)
		copy(m.Bytes()[nodeParams:], n.Ops)
	case gpubackend.NodeConditional:
		if n.Bodies > MaxBodies {
			r = gpubackend.InvalidValue
		}
		put(0, n.Handle)
		put32(8, n.Kind)
		put32(12, n.Bodies)
		put(24, uint64(x.contexts.CurrentHandle()))
	}
	if r != gpubackend.Success {
		m.Free()
	}
	return m, r
}

// encodeKernel writes CUDA_KERNEL_NODE_PARAMS_v3, with pointers to the parameters where their offsets are known.
func encodeKernel(m cmem.Block, l *gpubackend.Launch, offsets []uint32) {
	b := m.Bytes()[nodeUnion:]
	put, put32 := binary.NativeEndian.PutUint64, binary.NativeEndian.PutUint32
	put(b, uint64(l.Function))
	for i := range 3 {
		put32(b[8+4*i:], l.Grid[i])
		put32(b[20+4*i:], l.Block[i])
	}
	put32(b[32:], l.Shared)
	if len(l.Parameters) == 0 {
		return
	}
	at := m.Address() + nodeParams
	if len(offsets) > 0 {
		put(b[40:], at)
		pointers := 8 * len(offsets)
		driver.PutPointers(m.Bytes()[nodeParams:], at+uint64(pointers), offsets)
		copy(m.Bytes()[nodeParams+pointers:], l.Parameters)
		return
	}
	put(b[48:], at)
	extra := m.Bytes()[nodeParams:]
	put(extra, 1) // CU_LAUNCH_PARAM_BUFFER_POINTER
	put(extra[8:], at+64)
	put(extra[16:], 2) // CU_LAUNCH_PARAM_BUFFER_SIZE
	put(extra[24:], at+48)
	put(extra[48:], uint64(len(l.Parameters)))
	copy(extra[64:], l.Parameters)
}

// encodeCopy writes CUDA_MEMCPY3D.
func (x *Graphs) encodeCopy(p []byte, b *gpubackend.Box) gpubackend.Result {
	rows := *b
	rows.DstPitch, rows.SrcPitch = max(b.DstPitch, b.Width), max(b.SrcPitch, b.Width)
	if b.Width == 0 || b.Height > reach.Addresses || b.DstSlice%rows.DstPitch != 0 || b.SrcSlice%rows.SrcPitch != 0 {
		return gpubackend.InvalidValue
	}
	if b.Depth <= 1 { // no slices
		rows.DstSlice, rows.SrcSlice = max(b.DstSlice/rows.DstPitch, b.Height)*rows.DstPitch, max(b.SrcSlice/rows.SrcPitch, b.Height)*rows.SrcPitch
	}
	to, from, r := x.ranges.Box(&rows)
	if r == gpubackend.Success {
		copies.Put3D(p, &rows, to, from)
	}
	return r
}

// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// Layout of CUgraphNodeParams: the type, then the parameters of that type.
const (
	nodeParams   = 256
	nodeUnion    = 16
	memOpBytes   = 48
	poolBytes    = 88
	accessBytes  = 12
	maxBodies    = 64
	hostNodeSize = 16
)

// GraphAddNode adds a node of any type.
func (d *Device) GraphAddNode(g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, n *gpubackend.Node) (
	node gpubackend.GraphNode, address uint64, bodies []gpubackend.Graph, r gpubackend.Result,
) {
	list, edge := handles(after), raw(edges)
	defer list.free()
	defer edge.free()
	if !edgesFit(edges, len(after)) {
		return 0, 0, nil, gpubackend.InvalidValue
	}
	if r = d.noteAllocation(n); r != gpubackend.Success {
		return 0, 0, nil, r
	}
	m, r := d.encodeNode(n)
	if r != gpubackend.Success {
		return 0, 0, nil, r
	}
	defer m.free()
	r = d.call(symGraphAddNode, d.out(0), uint64(g), list.orNull(), edge.orNull(), uint64(len(after)), m.address())
	node = gpubackend.GraphNode(d.value(0))
	if r != gpubackend.Success {
		return 0, 0, nil, r
	}
	switch n.Type {
	case gpubackend.NodeMemAlloc:
		address = binary.NativeEndian.Uint64(m.bytes()[nodeUnion+112:])
		d.ranges.device.put(span{address, n.Bytes, true})
	case gpubackend.NodeConditional:
		for _, b := range wordsAt(binary.NativeEndian.Uint64(m.bytes()[nodeUnion+16:]), n.Bodies) {
			bodies = append(bodies, gpubackend.Graph(b))
		}
	}
	return node, address, bodies, r
}

// GraphNodeSet changes a node.
func (d *Device) GraphNodeSet(node gpubackend.GraphNode, n *gpubackend.Node) gpubackend.Result {
	m, r := d.encodeNode(n)
	if r != gpubackend.Success {
		return r
	}
	defer m.free()
	return d.call(symGraphNodeSetParams, uint64(node), m.address())
}

// GraphExecNodeSet changes a node of an executable graph.
func (d *Device) GraphExecNodeSet(exec gpubackend.GraphExec, node gpubackend.GraphNode, n *gpubackend.Node) gpubackend.Result {
	m, r := d.encodeNode(n)
	if r != gpubackend.Success {
		return r
	}
	defer m.free()
	return d.call(symGraphExecNodeSetParams, uint64(exec), uint64(node), m.address())
}

// encodeNode makes CUgraphNodeParams, and behind it what it points to.
func (d *Device) encodeNode(n *gpubackend.Node) (block, gpubackend.Result) {
	tail := len(n.Access) + len(n.Ops) + len(n.Launch.Parameters)
	var offsets []uint32
	if n.Type == gpubackend.NodeKernel {
		// An attribute that wants pointers may be set later.
		offsets = d.offsets(n.Launch.Function, n.Launch.Parameters)
		tail += 8 * len(offsets)
	}
	m := allocate(nodeParams + 64 + tail)
	put := func(offset int, v uint64) { binary.NativeEndian.PutUint64(m.bytes()[nodeUnion+offset:], v) }
	put32 := func(offset int, v uint64) { binary.NativeEndian.PutUint32(m.bytes()[nodeUnion+offset:], uint32(v)) }
	binary.NativeEndian.PutUint32(m.bytes(), uint32(n.Type))
	r := gpubackend.Success
	switch n.Type {
	case gpubackend.NodeKernel:
		encodeKernel(m, &n.Launch, offsets)
	case gpubackend.NodeMemcpy:
		put(8, uint64(d.current))
		r = d.encodeCopy(m.bytes()[nodeUnion+16:], &n.Copy)
	case gpubackend.NodeMemset:
		f := &n.Fill
		r = d.mayFill(f.Dst, f.Pitch, f.Element, f.Width, f.Height)
		put(0, f.Dst)
		put(8, f.Pitch)
		put32(16, f.Value)
		put32(20, f.Element)
		put(24, f.Width)
		put(32, f.Height)
		put(40, uint64(d.current))
	case gpubackend.NodeHost:
		var function, data uint64
		function, data, r = d.hostNode(n.Token, n.Call)
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
		copy(m.bytes()[nodeUnion:], n.Pool)
		put(88, m.address()+nodeParams)
		put(96, uint64(len(n.Access)/accessBytes))
		put(104, n.Bytes)
		copy(m.bytes()[nodeParams:], n.Access)
	case gpubackend.NodeMemFree:
		put(0, n.Address)
	case gpubackend.NodeMemOps:
		put(0, uint64(d.current))
		put32(8, uint64(len(n.Ops)/memOpBytes))
		put(16, m.address()+nodeParams)
		put32(24, n.Flags)
		copy(m.bytes()[nodeParams:], n.Ops)
	case gpubackend.NodeConditional:
		if n.Bodies > maxBodies {
			r = gpubackend.InvalidValue
		}
		put(0, n.Handle)
		put32(8, n.Kind)
		put32(12, n.Bodies)
		put(24, uint64(d.current))
	}
	if r != gpubackend.Success {
		m.free()
	}
	return m, r
}

// encodeKernel writes CUDA_KERNEL_NODE_PARAMS_v3, with pointers to the parameters where their offsets are known.
func encodeKernel(m block, l *gpubackend.Launch, offsets []uint32) {
	b := m.bytes()[nodeUnion:]
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
	at := m.address() + nodeParams
	if len(offsets) > 0 {
		put(b[40:], at)
		pointers := 8 * len(offsets)
		putPointers(m.bytes()[nodeParams:], at+uint64(pointers), offsets)
		copy(m.bytes()[nodeParams+pointers:], l.Parameters)
		return
	}
	put(b[48:], at)
	extra := m.bytes()[nodeParams:]
	put(extra, 1) // CU_LAUNCH_PARAM_BUFFER_POINTER
	put(extra[8:], at+64)
	put(extra[16:], 2) // CU_LAUNCH_PARAM_BUFFER_SIZE
	put(extra[24:], at+48)
	put(extra[48:], uint64(len(l.Parameters)))
	copy(extra[64:], l.Parameters)
}

// encodeCopy writes CUDA_MEMCPY3D.
func (d *Device) encodeCopy(p []byte, b *gpubackend.Box) gpubackend.Result {
	rows := *b
	rows.DstPitch, rows.SrcPitch = max(b.DstPitch, b.Width), max(b.SrcPitch, b.Width)
	if b.Width == 0 || b.Height > addresses || b.DstSlice%rows.DstPitch != 0 || b.SrcSlice%rows.SrcPitch != 0 {
		return gpubackend.InvalidValue
	}
	if b.Depth <= 1 { // no slices
		rows.DstSlice, rows.SrcSlice = max(b.DstSlice/rows.DstPitch, b.Height)*rows.DstPitch, max(b.SrcSlice/rows.SrcPitch, b.Height)*rows.SrcPitch
	}
	to, from, r := d.reachBox(&rows)
	if r == gpubackend.Success {
		put3D(p, &rows, to, from)
	}
	return r
}

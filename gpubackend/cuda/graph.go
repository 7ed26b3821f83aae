// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// raw is a copy of b in C memory.
func raw(b []byte) block {
	if len(b) == 0 {
		return block{}
	}
	m := allocate(len(b))
	copy(m.bytes(), b)
	return m
}

// handles is an array of handles in C memory.
func handles(nodes []gpubackend.GraphNode) block {
	if len(nodes) == 0 {
		return block{}
	}
	m := allocate(8 * len(nodes))
	for i, n := range nodes {
		binary.NativeEndian.PutUint64(m.bytes()[8*i:], uint64(n))
	}
	return m
}

// orNull is the block's address, 0 for none.
func (b block) orNull() uint64 {
	if b.p == nil {
		return 0
	}
	return b.address()
}

// words reads a block as words.
func words(b block) []uint64 { return wordsAt(b.address(), uint64(b.n/8)) }

// bytesOf copies memory of the driver's.
func bytesOf(address, n uint64) []byte {
	return append([]byte(nil), at(address, int(n))...)
}

// wordsAt copies n words of C memory.
func wordsAt(address, n uint64) []uint64 {
	if address == 0 || n == 0 {
		return nil
	}
	b := bytesOf(address, 8*n)
	v := make([]uint64, n)
	for i := range v {
		v[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return v
}

// edgeBytes is the size of CUgraphEdgeData.
const edgeBytes = 8

// edgesFit says whether edges, if there are any, are those of n nodes.
func edgesFit(edges []byte, n int) bool { return len(edges) == 0 || len(edges) == edgeBytes*n }

func nodesOf(v []uint64) (nodes []gpubackend.GraphNode) {
	for _, n := range v {
		nodes = append(nodes, gpubackend.GraphNode(n))
	}
	return nodes
}

// GraphInstantiate is cuGraphInstantiateWithParams, whose structure is flags, stream, node and result.
func (d *Device) GraphInstantiate(g gpubackend.Graph, flags uint64, upload gpubackend.Stream) (
	exec gpubackend.GraphExec, node gpubackend.GraphNode, status uint64, r gpubackend.Result,
) {
	m := allocate(32)
	defer m.free()
	binary.NativeEndian.PutUint64(m.bytes(), flags)
	binary.NativeEndian.PutUint64(m.bytes()[8:], uint64(upload))
	if flags&instantiateUpload != 0 && d.active != nil {
		d.active.touch(upload)
	}
	exec, r = d.instantiated(g, flags&instantiateUpload != 0, func() (gpubackend.GraphExec, gpubackend.Result) {
		if r := d.call(symGraphInstantiateWithParams, d.out(0), uint64(g), m.address()); r != gpubackend.Success {
			return 0, r
		}
		return gpubackend.GraphExec(d.value(0)), gpubackend.Success
	})
	node = gpubackend.GraphNode(binary.NativeEndian.Uint64(m.bytes()[16:]))
	return exec, node, uint64(binary.NativeEndian.Uint32(m.bytes()[24:])), r
}

const instantiateUpload = 2

// GraphDestroy ends the graph.
func (d *Device) GraphDestroy(g gpubackend.Graph) gpubackend.Result { return d.calls.GraphDestroy(g) }

// GraphGetNodes gives all nodes.
func (d *Device) GraphGetNodes(g gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.nodeList(symGraphGetNodes, g)
}

// GraphGetRootNodes gives those that depend on none.
func (d *Device) GraphGetRootNodes(g gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.nodeList(symGraphGetRootNodes, g)
}

func (d *Device) nodeList(s symbol, g gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result) {
	r := d.call(s, uint64(g), 0, d.out(0))
	n := d.value(0)
	if r != gpubackend.Success || n == 0 {
		return nil, r
	}
	m := allocate(int(8 * n))
	defer m.free()
	r = d.call(s, uint64(g), m.address(), d.inOut(0, n))
	return nodesOf(words(m)[:min(n, d.value(0))]), r
}

// GraphGetEdges gives the edges of a graph.
func (d *Device) GraphGetEdges(g gpubackend.Graph, edges []byte) (from, to []gpubackend.GraphNode, r gpubackend.Result) {
	r = d.call(symGraphGetEdges, uint64(g), 0, 0, 0, d.out(0))
	n := d.value(0)
	if r != gpubackend.Success || n == 0 {
		return nil, nil, r
	}
	m := allocate(int(3 * 8 * n))
	defer m.free()
	at := m.address()
	r = d.call(symGraphGetEdges, uint64(g), at, at+8*n, at+16*n, d.inOut(0, n))
	v := words(m)
	copy(edges, m.bytes()[16*n:])
	return nodesOf(v[:n]), nodesOf(v[n : 2*n]), r
}

// GraphNodeGetDependencies gives the nodes that a node comes after.
func (d *Device) GraphNodeGetDependencies(n gpubackend.GraphNode, edges []byte) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.neighbours(symGraphNodeGetDependencies, n, edges)
}

// GraphNodeGetDependentNodes gives the nodes that come after a node.
func (d *Device) GraphNodeGetDependentNodes(n gpubackend.GraphNode, edges []byte) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.neighbours(symGraphNodeGetDependentNodes, n, edges)
}

func (d *Device) neighbours(s symbol, node gpubackend.GraphNode, edges []byte) ([]gpubackend.GraphNode, gpubackend.Result) {
	r := d.call(s, uint64(node), 0, 0, d.out(0))
	n := d.value(0)
	if r != gpubackend.Success || n == 0 {
		return nil, r
	}
	m := allocate(int(2 * 8 * n))
	defer m.free()
	r = d.call(s, uint64(node), m.address(), m.address()+8*n, d.inOut(0, n))
	copy(edges, m.bytes()[8*n:])
	return nodesOf(words(m)[:n]), r
}

// GraphAddDependencies adds edges.
func (d *Device) GraphAddDependencies(g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte) gpubackend.Result {
	return d.dependencies(symGraphAddDependencies, g, from, to, edges)
}

// GraphRemoveDependencies removes edges.
func (d *Device) GraphRemoveDependencies(g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte) gpubackend.Result {
	return d.dependencies(symGraphRemoveDependencies, g, from, to, edges)
}

func (d *Device) dependencies(s symbol, g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte) gpubackend.Result {
	if len(from) != len(to) || !edgesFit(edges, len(from)) {
		return gpubackend.InvalidValue
	}
	a, b, e := handles(from), handles(to), raw(edges)
	defer a.free()
	defer b.free()
	defer e.free()
	return d.call(s, uint64(g), a.orNull(), b.orNull(), e.orNull(), uint64(len(from)))
}

// GraphExecUpdate changes an executable graph to another of the same form. Where it can't: why, and the nodes.
func (d *Device) GraphExecUpdate(g gpubackend.Graph, exec gpubackend.GraphExec) (
	node, from gpubackend.GraphNode, why uint64, r gpubackend.Result,
) {
	m := allocate(24)
	defer m.free()
	r = d.call(symGraphExecUpdate, uint64(exec), uint64(g), m.address())
	v := words(m)
	return gpubackend.GraphNode(v[1]), gpubackend.GraphNode(v[2]), uint64(uint32(v[0])), r
}

// attributeValueBytes is the size of CUkernelNodeAttrValue.
const attributeValueBytes = 64

// GraphKernelNodeSetAttribute sets a launch attribute of a node.
func (d *Device) GraphKernelNodeSetAttribute(n gpubackend.GraphNode, id uint64, value []byte) gpubackend.Result {
	if len(value) != attributeValueBytes || id > 31 || nodeAttributes>>id&1 == 0 {
		return gpubackend.InvalidValue
	}
	m := raw(value)
	defer m.free()
	return d.call(symGraphKernelNodeSetAttribute, uint64(n), id, m.address())
}

// nodeAttributes are the attributes of kernel nodes without a handle in them.
const nodeAttributes = 1<<1 | 1<<2 | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<14

// GraphKernelNodeGetAttribute reads one.
func (d *Device) GraphKernelNodeGetAttribute(n gpubackend.GraphNode, id uint64, value []byte) gpubackend.Result {
	if id > 31 || nodeAttributes>>id&1 == 0 {
		return gpubackend.InvalidValue
	}
	m := allocate(attributeValueBytes)
	defer m.free()
	r := d.call(symGraphKernelNodeGetAttribute, uint64(n), id, m.address())
	copy(value, m.bytes())
	return r
}

// GraphConditionalHandle makes a handle, which kernels use under its own value.
func (d *Device) GraphConditionalHandle(g gpubackend.Graph, value, flags uint64) (uint64, gpubackend.Result) {
	r := d.call(symGraphConditionalHandleCreate, d.out(0), uint64(g), uint64(d.current), value, flags)
	return d.value(0), r
}

// DeviceGraphMemTrim gives back the memory that graphs don't use.
func (d *Device) DeviceGraphMemTrim(dev uint64) gpubackend.Result {
	i, ok := d.gpuOf(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	r := d.calls.DeviceGraphMemTrim(d.gpus[i].native)
	if d.graphMemory.any {
		d.measureGraphs()
	}
	return r
}

// GraphMemory reads how much memory graphs have.
func (d *Device) GraphMemory(dev, attr uint64) (uint64, gpubackend.Result) {
	i, ok := d.gpuOf(dev)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	r := d.call(symDeviceGetGraphMemAttribute, d.gpus[i].native, attr, d.out(0))
	return d.value(0), r
}

// GraphMemorySet resets a high-water mark.
func (d *Device) GraphMemorySet(dev, attr, value uint64) gpubackend.Result {
	i, ok := d.gpuOf(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	m := raw(binary.NativeEndian.AppendUint64(nil, value))
	defer m.free()
	return d.call(symDeviceSetGraphMemAttribute, d.gpus[i].native, attr, m.address())
}

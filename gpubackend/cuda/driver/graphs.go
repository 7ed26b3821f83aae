// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// EdgeBytes is the size of CUgraphEdgeData.
const EdgeBytes = cudaabi.GraphEdgeDataSize

// EdgesFit says whether edges, if there are any, are those of n nodes.
func EdgesFit(edges []byte, n int) bool { return len(edges) == 0 || len(edges) == EdgeBytes*n }

func nodesOf(v []uint64) (nodes []gpubackend.GraphNode) {
	for _, n := range v {
		nodes = append(nodes, gpubackend.GraphNode(n))
	}
	return nodes
}

// GraphInstantiateWithParams instantiates a graph. Its structure is flags, stream, node and result.
func (d Graphs) GraphInstantiateWithParams(
	g gpubackend.Graph, flags uint64, upload gpubackend.Stream,
) (
	exec gpubackend.GraphExec, node gpubackend.GraphNode, status uint64, r gpubackend.Result,
) {
	m := cmem.Allocate(cudaabi.GraphInstantiateParamsSize)
	defer m.Free()
	p := cudaabi.GraphInstantiateParams(m.Bytes())
	p.SetFlags(flags)
	p.SetHUploadStream(uint64(upload))
	r = d.call(symGraphInstantiateWithParams, d.out(0), uint64(g), m.Address())
	if r == gpubackend.Success {
		exec = gpubackend.GraphExec(d.value(0))
	}
	return exec, gpubackend.GraphNode(p.HErrNodeOut()), uint64(p.ResultOut()), r
}

// GraphGetNodes gives all nodes.
func (d Graphs) GraphGetNodes(g gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.nodeList(symGraphGetNodes, g)
}

// GraphGetRootNodes gives those that depend on none.
func (d Graphs) GraphGetRootNodes(g gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.nodeList(symGraphGetRootNodes, g)
}

func (d Graphs) nodeList(
	s symbol, g gpubackend.Graph,
) ([]gpubackend.GraphNode, gpubackend.Result) {
	r := d.call(s, uint64(g), 0, d.out(0))
	n := d.value(0)
	if r != gpubackend.Success || n == 0 {
		return nil, r
	}
	m := cmem.Allocate(int(8 * n))
	defer m.Free()
	r = d.call(s, uint64(g), m.Address(), d.inOut(0, n))
	return nodesOf(m.Words()[:min(n, d.value(0))]), r
}

// GraphGetEdges gives the edges of a graph.
func (d Graphs) GraphGetEdges(
	g gpubackend.Graph, edges []byte,
) (from, to []gpubackend.GraphNode, r gpubackend.Result) {
	r = d.call(symGraphGetEdges, uint64(g), 0, 0, 0, d.out(0))
	n := d.value(0)
	if r != gpubackend.Success || n == 0 {
		return nil, nil, r
	}
	m := cmem.Allocate(int((8 + 8 + EdgeBytes) * n))
	defer m.Free()
	at := m.Address()
	r = d.call(symGraphGetEdges, uint64(g), at, at+8*n, at+16*n, d.inOut(0, n))
	v := m.Words()
	copy(edges, m.Bytes()[16*n:])
	return nodesOf(v[:n]), nodesOf(v[n : 2*n]), r
}

// GraphNodeGetDependencies gives the nodes that a node comes after.
func (d Graphs) GraphNodeGetDependencies(
	n gpubackend.GraphNode, edges []byte,
) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.neighbours(symGraphNodeGetDependencies, n, edges)
}

// GraphNodeGetDependentNodes gives the nodes that come after a node.
func (d Graphs) GraphNodeGetDependentNodes(
	n gpubackend.GraphNode, edges []byte,
) ([]gpubackend.GraphNode, gpubackend.Result) {
	return d.neighbours(symGraphNodeGetDependentNodes, n, edges)
}

func (d Graphs) neighbours(
	s symbol, node gpubackend.GraphNode, edges []byte,
) ([]gpubackend.GraphNode, gpubackend.Result) {
	r := d.call(s, uint64(node), 0, 0, d.out(0))
	n := d.value(0)
	if r != gpubackend.Success || n == 0 {
		return nil, r
	}
	m := cmem.Allocate(int((8 + EdgeBytes) * n))
	defer m.Free()
	r = d.call(s, uint64(node), m.Address(), m.Address()+8*n, d.inOut(0, n))
	copy(edges, m.Bytes()[8*n:])
	return nodesOf(m.Words()[:n]), r
}

// GraphAddDependencies adds edges.
func (d Graphs) GraphAddDependencies(
	g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	return d.dependencies(symGraphAddDependencies, g, from, to, edges)
}

// GraphRemoveDependencies removes edges.
func (d Graphs) GraphRemoveDependencies(
	g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	return d.dependencies(symGraphRemoveDependencies, g, from, to, edges)
}

func (d Graphs) dependencies(
	s symbol, g gpubackend.Graph, from, to []gpubackend.GraphNode, edges []byte,
) gpubackend.Result {
	if len(from) != len(to) || !EdgesFit(edges, len(from)) {
		return gpubackend.InvalidValue
	}
	a, b, e := cmem.Handles(from), cmem.Handles(to), cmem.Optional(edges)
	defer a.Free()
	defer b.Free()
	defer e.Free()
	return d.call(s, uint64(g), a.Address(), b.Address(), e.Address(), uint64(len(from)))
}

// GraphAdd adds a node with CUgraphNodeParams after others, whose edges fit.
func (d Graphs) GraphAdd(
	g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, params cmem.Memory,
) (gpubackend.GraphNode, gpubackend.Result) {
	list, edge := cmem.Handles(after), cmem.Optional(edges)
	defer list.Free()
	defer edge.Free()
	r := d.call(symGraphAddNode, d.out(0), uint64(g), list.Address(), edge.Address(),
		uint64(len(after)), params.Address())
	return gpubackend.GraphNode(d.value(0)), r
}

// GraphNodeSetParams changes a node to CUgraphNodeParams.
func (d Graphs) GraphNodeSetParams(n gpubackend.GraphNode, params cmem.Memory) gpubackend.Result {
	return d.call(symGraphNodeSetParams, uint64(n), params.Address())
}

// GraphExecNodeSetParams changes a node of an executable graph.
func (d Graphs) GraphExecNodeSetParams(
	e gpubackend.GraphExec, n gpubackend.GraphNode, params cmem.Memory,
) gpubackend.Result {
	return d.call(symGraphExecNodeSetParams, uint64(e), uint64(n), params.Address())
}

// handleBytes is the size of a handle, which is all that is told of some nodes.
const handleBytes = 8

// reader is how the parameters of a type of node are read: by which function, and of what size they
// are.
type reader struct {
	get  symbol
	size int
}

var readers = map[gpubackend.NodeType]reader{
	gpubackend.NodeKernel: {symGraphKernelNodeGetParams, cudaabi.KernelNodeParamsSize},
	gpubackend.NodeMemcpy: {symGraphMemcpyNodeGetParams, cudaabi.Memcpy3DSize},
	gpubackend.NodeMemset: {symGraphMemsetNodeGetParams, cudaabi.MemsetNodeParamsSize},
	gpubackend.NodeHost:   {symGraphHostNodeGetParams, cudaabi.HostNodeParamsSize},
	gpubackend.NodeGraph:  {symGraphChildGraphNodeGetGraph, handleBytes},
	gpubackend.NodeEventRecord: {symGraphEventRecordNodeGetEvent,
		cudaabi.EventRecordNodeParamsSize},
	gpubackend.NodeEventWait: {symGraphEventWaitNodeGetEvent, cudaabi.EventWaitNodeParamsSize},
	gpubackend.NodeMemAlloc:  {symGraphMemAllocNodeGetParams, cudaabi.MemAllocNodeParamsSize},
	gpubackend.NodeMemFree:   {symGraphMemFreeNodeGetParams, cudaabi.MemFreeNodeParamsSize},
	gpubackend.NodeMemOps:    {symGraphBatchMemOpNodeGetParams, cudaabi.BatchMemOpNodeParamsSize},
}

// GraphNodeGetParams reads the parameters of a node of a type, which the caller frees. They point
// to memory of the driver's.
func (d Graphs) GraphNodeGetParams(
	n gpubackend.GraphNode, t gpubackend.NodeType,
) (cmem.Memory, gpubackend.Result) {
	how, ok := readers[t]
	if !ok {
		return cmem.Memory{}, gpubackend.NotSupported
	}
	m := cmem.Allocate(how.size)
	if r := d.call(how.get, uint64(n), m.Address()); r != gpubackend.Success {
		m.Free()
		return m, r
	}
	return m, gpubackend.Success
}

// GraphExecUpdate changes an executable graph to another of the same form. Where it can't: why, and
// the nodes.
func (d Graphs) GraphExecUpdate(g gpubackend.Graph, exec gpubackend.GraphExec) (
	node, from gpubackend.GraphNode, why uint64, r gpubackend.Result,
) {
	m := cmem.Allocate(cudaabi.GraphExecUpdateResultInfoSize)
	defer m.Free()
	r = d.call(symGraphExecUpdate, uint64(exec), uint64(g), m.Address())
	info := cudaabi.GraphExecUpdateResultInfo(m.Bytes())
	return gpubackend.GraphNode(info.ErrorNode()), gpubackend.GraphNode(info.ErrorFromNode()),
		uint64(info.Result()), r
}

// mayBeSet says whether a node may get an attribute: kernels on the device may not change nodes.
func mayBeSet(id uint64, value []byte) bool {
	updatable := id == cudaabi.LaunchAttributeDeviceUpdatableKernelNode && slices.Max(value) > 0
	return allowed.NodeAttribute.Has(id) && !updatable
}

// GraphKernelNodeSetAttribute sets a launch attribute of a node.
func (d Graphs) GraphKernelNodeSetAttribute(
	n gpubackend.GraphNode, id uint64, value []byte,
) gpubackend.Result {
	if len(value) != cudaabi.LaunchAttributeValueSize || !mayBeSet(id, value) {
		return gpubackend.InvalidValue
	}
	m := cmem.Copied(value, 0)
	defer m.Free()
	return d.call(symGraphKernelNodeSetAttribute, uint64(n), id, m.Address())
}

// GraphKernelNodeGetAttribute reads one.
func (d Graphs) GraphKernelNodeGetAttribute(
	n gpubackend.GraphNode, id uint64, value []byte,
) gpubackend.Result {
	if !allowed.NodeAttribute.Has(id) {
		return gpubackend.InvalidValue
	}
	m := cmem.Allocate(cudaabi.LaunchAttributeValueSize)
	defer m.Free()
	r := d.call(symGraphKernelNodeGetAttribute, uint64(n), id, m.Address())
	copy(value, m.Bytes())
	if id == cudaabi.LaunchAttributeDeviceUpdatableKernelNode {
		clear(value[min(4, len(value)):]) // a handle of the driver's
	}
	return r
}

// GraphConditionalHandleCreate makes a handle, which kernels use under its own value.
func (d Graphs) GraphConditionalHandleCreate(
	g gpubackend.Graph, c gpubackend.Context, value, flags uint64,
) (uint64, gpubackend.Result) {
	r := d.call(symGraphConditionalHandleCreate, d.out(0), uint64(g), uint64(c), value, flags)
	return d.value(0), r
}

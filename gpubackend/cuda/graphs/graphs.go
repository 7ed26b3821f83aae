// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	Touch(s gpubackend.Stream)
	GraphInstantiateWithFlags(g gpubackend.Graph, flags uint64) (gpubackend.GraphExec,
		gpubackend.Result)
	GraphInstantiateWithParams(g gpubackend.Graph, flags uint64, upload gpubackend.Stream) (
		exec gpubackend.GraphExec, node gpubackend.GraphNode, status uint64, r gpubackend.Result,
	)
	GraphExecDestroy(e gpubackend.GraphExec) gpubackend.Result
	GraphLaunch(e gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result
	GraphUpload(e gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result
	GraphConditionalHandleCreate(
		g gpubackend.Graph, c gpubackend.Context, value, flags uint64,
	) (uint64, gpubackend.Result)

	GraphGetNodes(g gpubackend.Graph) ([]gpubackend.GraphNode, gpubackend.Result)
	GraphNodeGetType(n gpubackend.GraphNode) (uint64, gpubackend.Result)
	GraphNodeGetParams(n gpubackend.GraphNode, t gpubackend.NodeType) (cmem.Memory,
		gpubackend.Result)
	GraphAdd(
		g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte, params cmem.Memory,
	) (gpubackend.GraphNode, gpubackend.Result)
	GraphNodeSetParams(n gpubackend.GraphNode, params cmem.Memory) gpubackend.Result
	GraphExecNodeSetParams(e gpubackend.GraphExec, n gpubackend.GraphNode,
		params cmem.Memory) gpubackend.Result
	FuncParameters(f gpubackend.Function) (layout []byte, end uint32, r gpubackend.Result)
	FuncOffsets(f gpubackend.Function, packed []byte) []uint32

	MemFree(addr uint64) gpubackend.Result
	MemFreeAsync(addr uint64, s gpubackend.Stream) gpubackend.Result
	DeviceGraphMemTrim(device uint64) gpubackend.Result
	DeviceGetGraphMemAttribute(device, attribute uint64) (uint64, gpubackend.Result)
	DeviceSetGraphMemAttribute(device, attribute, value uint64) gpubackend.Result
}

// Memory counts what graphs allocate.
type Memory interface {
	Limit() uint64
	Reclaim() bool
	HasRoomNow(gpu int, bytes uint64) bool
	Recharge(gpu int, had, now uint64)
	Over(gpu int) bool
}

// Needs has what nodes are made of besides memory.
type Needs struct {
	// HostNode gives the function and its data for a host function's node.
	HostNode func(token uint64, f gpubackend.HostCall) (function, data uint64, r gpubackend.Result)
	// FunctionOf returns a kernel's function in the current context.
	FunctionOf func(k gpubackend.Kernel) (gpubackend.Function, gpubackend.Result)
}

// Graphs is the graphs of one guest process.
type Graphs struct {
	calls    Calls
	contexts *contexts.Contexts
	gpus     *gpus.List
	ranges   *copyable.Ranges
	memory   Memory
	needs    Needs

	any     bool // a node that allocates was made
	execs   map[gpubackend.GraphExec]allocations
	counted [gpus.Max]uint64 // what counts for memory of graphs, of each GPU
}

// New returns the graphs of a process, which has none yet.
func New(
	calls Calls, x *contexts.Contexts, list *gpus.List, ranges *copyable.Ranges, memory Memory,
	needs Needs,
) *Graphs {
	return &Graphs{
		calls: calls, contexts: x, gpus: list, ranges: ranges, memory: memory, needs: needs,
		execs: make(map[gpubackend.GraphExec]allocations),
	}
}

// Allocating is how many executable graphs allocate.
func (x *Graphs) Allocating() int { return len(x.execs) }

// GraphInstantiate instantiates by cuGraphInstantiateWithParams.
func (x *Graphs) GraphInstantiate(g gpubackend.Graph, flags uint64, upload gpubackend.Stream) (
	exec gpubackend.GraphExec, node gpubackend.GraphNode, status uint64, r gpubackend.Result,
) {
	uploads := flags&cudaabi.GraphInstantiateFlagUpload != 0
	if uploads {
		x.calls.Touch(upload)
	}
	exec, r = x.instantiated(g, uploads, func() (e gpubackend.GraphExec, r gpubackend.Result) {
		e, node, status, r = x.calls.GraphInstantiateWithParams(g, flags, upload)
		return e, r
	})
	return exec, node, status, r
}

// GraphConditionalHandle makes a handle, which kernels use under its own value.
func (x *Graphs) GraphConditionalHandle(
	g gpubackend.Graph, value, flags uint64,
) (uint64, gpubackend.Result) {
	return x.calls.GraphConditionalHandleCreate(g, x.contexts.CurrentHandle(), value, flags)
}

// DeviceGraphMemTrim gives back the memory that graphs don't use.
func (x *Graphs) DeviceGraphMemTrim(dev uint64) gpubackend.Result {
	i, ok := x.gpus.Find(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	r := x.calls.DeviceGraphMemTrim(x.gpus.At(i).Native)
	x.Measure()
	return r
}

// GraphMemory reads how much memory graphs have.
func (x *Graphs) GraphMemory(dev, attr uint64) (uint64, gpubackend.Result) {
	i, ok := x.gpus.Find(dev)
	if !ok {
		return 0, gpubackend.InvalidDevice
	}
	return x.calls.DeviceGetGraphMemAttribute(x.gpus.At(i).Native, attr)
}

// GraphMemorySet resets a high-water mark.
func (x *Graphs) GraphMemorySet(dev, attr, value uint64) gpubackend.Result {
	i, ok := x.gpus.Find(dev)
	if !ok {
		return gpubackend.InvalidDevice
	}
	return x.calls.DeviceSetGraphMemAttribute(x.gpus.At(i).Native, attr, value)
}

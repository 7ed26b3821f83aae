// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Memory that allocation nodes have counts where a limit is set. The driver takes it when a graph
// is launched or uploaded, lets graphs that don't run at the same time share it, and keeps it until
// it is trimmed. So the nodes themselves don't count: their sum may be many times what is there.
// What counts is what the driver says that graphs have: it is asked after each call that may change
// that. For a launch there must be room for what the graph allocates, in addition to what graphs
// use now. If its free memory is in parts that don't fit, the driver may take more than that: at
// most what it had, and what the graph allocates. It then gives up what is unused, and the next
// launch is refused.
//
// Bodies of conditional nodes can't allocate, so they aren't looked into.

// allocations is what a graph allocates of each GPU.
type allocations [gpus.Max]uint64

// maxGraphDepth bounds graphs in graphs, if there are allocations.
const maxGraphDepth = 256

// noteAllocation refuses an allocation node for which no launch can have room.
func (x *Graphs) noteAllocation(n *gpubackend.Node) gpubackend.Result {
	if x.memory.Limit() == 0 || n.Type != gpubackend.NodeMemAlloc {
		return gpubackend.Success
	}
	x.any = true
	if n.Bytes > x.memory.Limit() {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// allocationsOf adds up what a graph and those in it allocate.
func (x *Graphs) allocationsOf(g gpubackend.Graph, sum *allocations, depth int) gpubackend.Result {
	if depth == maxGraphDepth {
		return gpubackend.NotSupported
	}
	nodes, r := x.calls.GraphGetNodes(g)
	for _, node := range nodes {
		t, r := x.calls.GraphNodeGetType(node)
		kind := gpubackend.NodeType(t)
		if r == gpubackend.Success && kind != gpubackend.NodeMemAlloc &&
			kind != gpubackend.NodeGraph {
			continue
		}
		n, r := x.GraphNodeGet(node)
		if r != gpubackend.Success {
			return r
		}
		if kind == gpubackend.NodeGraph {
			r = x.allocationsOf(n.Child, sum, depth+1)
		} else if r = x.addAllocation(sum, n); r != gpubackend.Success {
			return r
		}
		if r != gpubackend.Success {
			return r
		}
	}
	return r
}

func (x *Graphs) addAllocation(sum *allocations, n *gpubackend.Node) gpubackend.Result {
	i, ok := x.gpus.Find(uint64(uint32(cudaabi.MemPoolProps(n.Pool).Location().ID())))
	if !ok {
		return gpubackend.InvalidDevice
	}
	limit := x.memory.Limit()
	if n.Bytes > limit || sum[i] > limit-n.Bytes {
		return gpubackend.OutOfMemory
	}
	sum[i] += n.Bytes
	return gpubackend.Success
}

// instantiated makes an executable graph by create and remembers what it allocates. One that is
// uploaded allocates at once, and must have room.
func (x *Graphs) instantiated(
	g gpubackend.Graph, upload bool, create func() (gpubackend.GraphExec, gpubackend.Result),
) (gpubackend.GraphExec, gpubackend.Result) {
	if !x.any {
		return create()
	}
	var sum allocations
	r := x.allocationsOf(g, &sum, 0)
	if r == gpubackend.Success && upload {
		r = x.room(&sum)
	}
	if r != gpubackend.Success {
		return 0, r
	}
	e, r := create()
	x.measureAll()
	delete(x.execs, e) // of one that ended with its context
	if r == gpubackend.Success && sum != (allocations{}) {
		x.execs[e] = sum
	}
	return e, r
}

// GraphInstantiateWithFlags notes what the graph allocates.
func (x *Graphs) GraphInstantiateWithFlags(
	g gpubackend.Graph, flags uint64,
) (gpubackend.GraphExec, gpubackend.Result) {
	return x.instantiated(g, flags&cudaabi.GraphInstantiateFlagUpload != 0,
		func() (gpubackend.GraphExec, gpubackend.Result) {
			return x.calls.GraphInstantiateWithFlags(g, flags)
		})
}

// GraphExecDestroy forgets what the graph allocates. What is allocated stays allocated.
func (x *Graphs) GraphExecDestroy(e gpubackend.GraphExec) gpubackend.Result {
	r := x.calls.GraphExecDestroy(e)
	if r == gpubackend.Success {
		delete(x.execs, e)
	}
	return r
}

// GraphLaunch launches a graph if there is room for what it allocates.
func (x *Graphs) GraphLaunch(e gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result {
	return x.allocating(e, func() gpubackend.Result { return x.calls.GraphLaunch(e, s) })
}

// GraphFree implements gpubackend.Capturing.
func (x *Graphs) GraphFree(addr uint64, s gpubackend.Stream) gpubackend.Result {
	if !x.mayHave(addr) {
		return gpubackend.NotFound
	}
	return x.contexts.Failed(x.calls.MemFreeAsync(addr, s))
}

// FreeNow is MemFree of what a graph allocated. The driver doesn't wait for work, and needn't: the
// caller has made sure that nothing uses the memory.
func (x *Graphs) FreeNow(addr uint64) gpubackend.Result {
	if !x.mayHave(addr) {
		return gpubackend.InvalidValue
	}
	return x.contexts.Failed(x.calls.MemFree(addr))
}

// mayHave says whether an address may be a graph's, so that the driver can judge it: MemFree of it
// can't hit anything else.
func (x *Graphs) mayHave(addr uint64) bool {
	return !x.ranges.InWindow(addr) && x.ranges.OfGPUs.Cover(addr, 1, true)
}

// GraphUpload uploads a graph if there is room for what its next launch allocates.
func (x *Graphs) GraphUpload(e gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result {
	return x.allocating(e, func() gpubackend.Result { return x.calls.GraphUpload(e, s) })
}

func (x *Graphs) allocating(
	e gpubackend.GraphExec, run func() gpubackend.Result,
) gpubackend.Result {
	sum, ok := x.execs[e]
	if !ok {
		return run()
	}
	if r := x.room(&sum); r != gpubackend.Success {
		return r
	}
	r := run()
	x.measureAll()
	return r
}

// room says whether a graph may allocate so much now.
func (x *Graphs) room(sum *allocations) gpubackend.Result {
	x.measureAll()
	for gpu := range x.gpus.Len() {
		if sum[gpu] == 0 {
			continue
		}
		if x.fits(gpu, sum[gpu]) || x.memory.Reclaim() && x.fits(gpu, sum[gpu]) {
			continue
		}
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// fits says whether graphs may have so much more in use. What they have and don't use is taken
// first.
func (x *Graphs) fits(gpu int, bytes uint64) bool {
	need := x.bytes(gpu, cudaabi.GraphMemAttrUsedMemCurrent) + bytes
	// counted when it is there
	return need <= x.counted[gpu] || x.memory.HasRoomNow(gpu, need-x.counted[gpu])
}

// bytes asks the driver; 0 where it doesn't know.
func (x *Graphs) bytes(gpu int, attribute uint64) uint64 {
	bytes, r := x.calls.DeviceGetGraphMemAttribute(x.gpus.At(gpu).Native, attribute)
	if r != gpubackend.Success {
		return 0
	}
	return bytes
}

// InUse says whether memory of graphs is allocated now, whether it counts or not.
func (x *Graphs) InUse() bool {
	for gpu := range x.gpus.Len() {
		if x.bytes(gpu, cudaabi.GraphMemAttrUsedMemCurrent) > 0 {
			return true
		}
	}
	return false
}

// Measure counts what graphs have now, if any graph allocates.
func (x *Graphs) Measure() {
	if x.any {
		x.measureAll()
	}
}

// measureAll counts what graphs have now, and makes the driver give up what is unused if that
// exceeds the limit.
func (x *Graphs) measureAll() {
	for gpu := range x.gpus.Len() {
		x.measure(gpu)
		if x.counted[gpu] > 0 && x.memory.Over(gpu) && x.trim(gpu) {
			x.measure(gpu)
		}
	}
}

func (x *Graphs) measure(gpu int) {
	now := x.bytes(gpu, cudaabi.GraphMemAttrReservedMemCurrent)
	x.memory.Recharge(gpu, x.counted[gpu], now)
	x.counted[gpu] = now
}

func (x *Graphs) trim(gpu int) bool {
	return x.calls.DeviceGraphMemTrim(x.gpus.At(gpu).Native) == gpubackend.Success
}

// Trim gives up what graphs have and don't use. It says whether that was anything.
func (x *Graphs) Trim() (gave bool) {
	for gpu := range x.gpus.Len() {
		before := x.counted[gpu]
		if before == 0 || !x.trim(gpu) {
			continue
		}
		x.measure(gpu)
		gave = gave || x.counted[gpu] < before
	}
	return gave
}

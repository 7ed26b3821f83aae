// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// graphMemory is the memory that allocation nodes have, where a limit is set. The driver takes it when a graph is launched
// or uploaded, lets graphs that don't run at the same time share it, and keeps it until it is trimmed. So it isn't the
// nodes that count, whose sum may be many times what is there, but what the driver says that graphs have: it is asked
// after each call that may change it, and can't drift. A launch must have room for what the graph allocates, beside what
// is allocated from graphs now. The driver may still take more than that, where free memory is in pieces that don't fit: it
// then has at most what it had and what the graph allocates, gives up what is unused, and the next launch is refused.
//
// Bodies of conditional nodes can't allocate, so they aren't looked into.
type graphMemory struct {
	any   bool // a node that allocates was made
	execs map[gpubackend.GraphExec]allocations
}

// allocations is what a graph allocates of each GPU.
type allocations [maxGPUs]uint64

// CUgraphMem_attribute.
const (
	graphMemoryUsed     = 0
	graphMemoryReserved = 2
)

// maxGraphDepth bounds graphs in graphs, if there are allocations.
const maxGraphDepth = 256

// poolLocation is where CUmemPoolProps has the number of the GPU.
const poolLocation = 12

// noteAllocation admits an allocation node, unless no launch ever could do it.
func (d *Device) noteAllocation(n *gpubackend.Node) gpubackend.Result {
	if d.options.MemoryLimit == 0 || n.Type != gpubackend.NodeMemAlloc {
		return gpubackend.Success
	}
	d.graphMemory.any = true
	if n.Bytes > d.options.MemoryLimit {
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// allocationsOf adds up what a graph and those in it allocate.
func (d *Device) allocationsOf(g gpubackend.Graph, sum *allocations, depth int) gpubackend.Result {
	if depth == maxGraphDepth {
		return gpubackend.NotSupported
	}
	nodes, r := d.GraphGetNodes(g)
	for _, node := range nodes {
		t, r := d.GraphNodeGetType(node)
		kind := gpubackend.NodeType(t)
		if r == gpubackend.Success && kind != gpubackend.NodeMemAlloc && kind != gpubackend.NodeGraph {
			continue
		}
		n, r := d.GraphNodeGet(node)
		if r != gpubackend.Success {
			return r
		}
		if kind == gpubackend.NodeGraph {
			r = d.allocationsOf(n.Child, sum, depth+1)
		} else if r = d.addAllocation(sum, n); r != gpubackend.Success {
			return r
		}
		if r != gpubackend.Success {
			return r
		}
	}
	return r
}

func (d *Device) addAllocation(sum *allocations, n *gpubackend.Node) gpubackend.Result {
	i, ok := d.gpuOf(uint64(binary.NativeEndian.Uint32(n.Pool[poolLocation:])))
	if !ok {
		return gpubackend.InvalidDevice
	}
	limit := d.options.MemoryLimit
	if n.Bytes > limit || sum[i] > limit-n.Bytes {
		return gpubackend.OutOfMemory
	}
	sum[i] += n.Bytes
	return gpubackend.Success
}

// instantiated makes an executable graph by create and remembers what it allocates. One that allocates at once, as it is
// uploaded, must have room.
func (d *Device) instantiated(
	g gpubackend.Graph, upload bool, create func() (gpubackend.GraphExec, gpubackend.Result),
) (gpubackend.GraphExec, gpubackend.Result) {
	if !d.graphMemory.any {
		return create()
	}
	var sum allocations
	r := d.allocationsOf(g, &sum, 0)
	if r == gpubackend.Success && upload {
		r = d.roomForGraph(&sum)
	}
	if r != gpubackend.Success {
		return 0, r
	}
	e, r := create()
	d.measureGraphs()
	delete(d.graphMemory.execs, e) // of one that ended with its context
	if r == gpubackend.Success && sum != (allocations{}) {
		if d.graphMemory.execs == nil {
			d.graphMemory.execs = map[gpubackend.GraphExec]allocations{}
		}
		d.graphMemory.execs[e] = sum
	}
	return e, r
}

// GraphInstantiateWithFlags notes what the graph allocates.
func (d *Device) GraphInstantiateWithFlags(g gpubackend.Graph, flags uint64) (gpubackend.GraphExec, gpubackend.Result) {
	return d.instantiated(g, flags&instantiateUpload != 0, func() (gpubackend.GraphExec, gpubackend.Result) {
		return d.calls.GraphInstantiateWithFlags(g, flags)
	})
}

// GraphExecDestroy forgets what the graph allocates. What is allocated stays.
func (d *Device) GraphExecDestroy(e gpubackend.GraphExec) gpubackend.Result {
	r := d.calls.GraphExecDestroy(e)
	if r == gpubackend.Success {
		delete(d.graphMemory.execs, e)
	}
	return r
}

// GraphLaunch launches a graph if there is room for what it allocates.
func (d *Device) GraphLaunch(e gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result {
	return d.allocating(e, func() gpubackend.Result { return d.calls.GraphLaunch(e, s) })
}

// GraphFree implements gpubackend.Capturing.
func (d *Device) GraphFree(addr uint64, s gpubackend.Stream) gpubackend.Result {
	if !d.mayBeOfGraph(addr) {
		return gpubackend.NotFound
	}
	return d.failed(d.MemFreeAsync(addr, s))
}

// freeOfGraph is MemFree of what a graph allocated. The driver doesn't wait for work, nor does it have to: whoever frees
// so has seen to it that nothing uses the memory.
func (d *Device) freeOfGraph(addr uint64) gpubackend.Result {
	if !d.mayBeOfGraph(addr) {
		return gpubackend.InvalidValue
	}
	return d.failed(d.calls.MemFree(addr))
}

// mayBeOfGraph says whether the driver is to judge an address: nothing else that it would free is known by one.
func (d *Device) mayBeOfGraph(addr uint64) bool {
	return !d.inWindow(addr) && d.ranges.device.cover(addr, 1, true)
}

// GraphUpload does so for what the next launch will allocate.
func (d *Device) GraphUpload(e gpubackend.GraphExec, s gpubackend.Stream) gpubackend.Result {
	return d.allocating(e, func() gpubackend.Result { return d.calls.GraphUpload(e, s) })
}

func (d *Device) allocating(e gpubackend.GraphExec, run func() gpubackend.Result) gpubackend.Result {
	sum, ok := d.graphMemory.execs[e]
	if !ok {
		return run()
	}
	if r := d.roomForGraph(&sum); r != gpubackend.Success {
		return r
	}
	r := run()
	d.measureGraphs()
	return r
}

// roomForGraph says whether a graph may allocate so much now.
func (d *Device) roomForGraph(sum *allocations) gpubackend.Result {
	d.measureGraphs()
	for i := range d.gpus {
		if sum[i] == 0 {
			continue
		}
		if d.fits(i, sum[i]) || d.reclaimAll() && d.fits(i, sum[i]) {
			continue
		}
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// fits says whether graphs may have so much more in use. What they have that is unused serves first.
func (d *Device) fits(gpu int, bytes uint64) bool {
	g := &d.gpus[gpu]
	need := d.graphBytes(g, graphMemoryUsed) + bytes
	if need <= g.graphs {
		return true
	}
	if g.heap.Charge(need-g.graphs) != nil {
		return false
	}
	g.heap.Uncharge(need - g.graphs) // counted when it is there
	return true
}

// graphBytes asks the driver; 0 where it doesn't know.
func (d *Device) graphBytes(g *gpu, attribute uint64) uint64 {
	bytes, r := d.DeviceGetGraphMemAttribute(g.native, attribute)
	if r != gpubackend.Success {
		return 0
	}
	return bytes
}

// measureGraphs counts what graphs have now, and has the driver give up what is unused where that is above the limit.
func (d *Device) measureGraphs() {
	for i := range d.gpus {
		g := &d.gpus[i]
		d.measure(g)
		if g.graphs > 0 && g.heap.Over() && d.calls.DeviceGraphMemTrim(g.native) == gpubackend.Success {
			d.measure(g)
		}
	}
}

func (d *Device) measure(g *gpu) {
	now := d.graphBytes(g, graphMemoryReserved)
	g.heap.Recharge(g.graphs, now)
	g.graphs = now
}

// trimGraphs gives up what graphs have and don't use. It says whether that was anything.
func (d *Device) trimGraphs() (gave bool) {
	for i := range d.gpus {
		g := &d.gpus[i]
		before := g.graphs
		if before == 0 || d.calls.DeviceGraphMemTrim(g.native) != gpubackend.Success {
			continue
		}
		d.measure(g)
		gave = gave || g.graphs < before
	}
	return gave
}

// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/graphs"
)

// onSoft returns a worker on the software GPU, without other processes.
func onSoft(t *testing.T) *rig {
	t.Helper()
	return onSoftAt(t, 0x2c0000000000)
}

// onSoftAt is onSoft with its device memory at an address. Several workers need different ones.
func onSoftAt(t *testing.T, base uint64) *rig {
	t.Helper()
	r := newRig(t)
	d := soft.New(soft.Options{Memory: 64 << 20, Base: base, Window: 1 << 30})
	if _, result := d.Open(nil); result != gpubackend.Success {
		t.Fatalf("open: %d", result)
	}
	t.Cleanup(d.Close)
	native, result := d.DevicePrimaryCtxRetain(0)
	if result != gpubackend.Success {
		t.Fatalf("context: %d", result)
	}
	r.use(d)
	r.objects = object.Table{}
	r.context = r.objects.Add(object.Context, uint64(native), 0)
	return r
}

func (r *rig) want(t *testing.T, want gpubackend.Result, op gpubackend.Op, words ...uint64) uint64 {
	t.Helper()
	if result := r.call(t, op, words...); result != want {
		t.Fatalf("%s: result %d, want %d", op.Name(), result, want)
	}
	return r.slot().Word[0]
}

// TestGraphMemoryIsFreedInOrder captures an allocation, and frees it behind each launch.
func TestGraphMemoryIsFreedInOrder(t *testing.T) {
	r := onSoft(t)
	s := r.want(t, 0, gpubackend.OpStreamCreateWithPriority, 1, 0)
	r.want(t, 0, gpubackend.OpStreamBeginCapture, s, 0)
	pool := r.want(t, 0, gpubackend.OpPoolDefault, 0)
	address := r.want(t, 0, gpubackend.OpMemAllocAsync, 4096, pool, s)
	r.want(t, 0, gpubackend.OpMemsetD8Async, address, 3, 4096, s)
	g := r.want(t, 0, gpubackend.OpStreamEndCapture, s)
	e := r.want(t, 0, gpubackend.OpGraphInstantiateWithFlags, g, 0)
	r.want(t, gpubackend.InvalidValue, gpubackend.OpMemFreeAsync, address, s)
	for range 5 {
		r.want(t, 0, gpubackend.OpGraphLaunch, e, s)
		r.want(t, gpubackend.InvalidValue, gpubackend.OpGraphLaunch, e, s)
		r.want(t, 0, gpubackend.OpMemFreeAsync, address, s)
	}
	r.want(t, 0, gpubackend.OpGraphExecDestroy, e)
	r.want(t, 0, gpubackend.OpGraphDestroy, g)
	if n := r.graphs.Names(); n != 0 {
		t.Errorf("%d names are left", n)
	}
}

// TestFailedCaptureTakesItsGraph spoils a capture to a graph, and ends another with its stream: the
// guest's handles must go with the driver's graphs.
func TestFailedCaptureTakesItsGraph(t *testing.T) {
	r := onSoft(t)
	s := r.want(t, 0, gpubackend.OpStreamCreateWithPriority, 1, 0)
	toGraph := func() uint64 {
		g := r.want(t, 0, gpubackend.OpGraphCreate, 0)
		r.want(t, 0, gpubackend.OpStreamBeginCaptureToGraph, s, g, 0, 0, 0, 0, 0)
		return g
	}
	g := toGraph()
	r.want(t, gpubackend.StreamCaptureUnsupported, gpubackend.OpStreamQuery, s)
	r.want(t, gpubackend.StreamCaptureInvalidated, gpubackend.OpStreamEndCapture, s)
	r.want(t, gpubackend.InvalidValue, gpubackend.OpGraphDestroy, g)
	g = toGraph()
	if same := r.want(t, 0, gpubackend.OpStreamEndCapture, s); same != g {
		t.Errorf("handle %#x, was %#x", same, g)
	}
	r.want(t, 0, gpubackend.OpGraphDestroy, g)
	g = toGraph()
	r.want(t, 0, gpubackend.OpStreamDestroy, s)
	r.want(t, gpubackend.InvalidValue, gpubackend.OpGraphDestroy, g)
	if n := r.graphs.Names() + r.graphs.Captures(); n != 0 {
		t.Errorf("%d names and captures are left", n)
	}
}

func TestGraphHandlesAreBounded(t *testing.T) {
	r := onSoft(t)
	g := r.want(t, 0, gpubackend.OpGraphCreate, 0)
	for range graphs.MaxObjects - 2 {
		r.objects.Add(object.GraphNode, 1, 0)
	}
	last := r.want(t, 0, gpubackend.OpGraphCreate, 0)
	for _, op := range []gpubackend.Op{gpubackend.OpGraphCreate, gpubackend.OpGraphClone,
		gpubackend.OpGraphInstantiateWithFlags} {
		r.want(t, gpubackend.OutOfMemory, op, g, 0)
	}
	r.want(t, 0, gpubackend.OpGraphDestroy, last)
	r.want(t, 0, gpubackend.OpGraphClone, g)
}

// addChild adds a copy of a graph as a node of another one.
func (r *rig) addChild(t *testing.T, graph, child uint64) uint64 {
	t.Helper()
	ref, bytes := r.given((&command.NodeGraph{Graph: child}).Append(nil))
	return r.want(t, 0, gpubackend.OpGraphAddNode, graph, 0, 0, 0, 0, ref, bytes, 0, 0)
}

// childOf reads a node's child graph.
func (r *rig) childOf(t *testing.T, node uint64) uint64 {
	t.Helper()
	r.want(t, 0, gpubackend.OpGraphNodeGet, node, bulk, 8*command.NodeGraphWords)
	n, ok := command.DecodeNodeGraph(r.mem[wire.Bulk:])
	if !ok {
		t.Fatal("the node has no child graph")
	}
	return n.Graph
}

// TestChildGraphsDieWithTheirNode: the driver may give the address of a child graph that is gone to
// another graph, which must not be taken for the child.
func TestChildGraphsDieWithTheirNode(t *testing.T) {
	r := onSoft(t)
	inner, outer := r.want(t, 0, gpubackend.OpGraphCreate, 0),
		r.want(t, 0, gpubackend.OpGraphCreate, 0)
	ref, bytes := r.given((&command.NodeEmpty{}).Append(nil))
	r.want(t, 0, gpubackend.OpGraphAddNode, inner, 0, 0, 0, 0, ref, bytes, 0, 0)
	middle := r.want(t, 0, gpubackend.OpGraphCreate, 0)
	r.addChild(t, middle, inner)
	var children []uint64
	add := func() uint64 {
		node := r.addChild(t, outer, middle)
		child := r.childOf(t, node)
		if r.want(t, 0, gpubackend.OpGraphGetNodes, child, bulk, 8) != 1 {
			t.Fatal("the child has another number of nodes")
		}
		grandchild := r.childOf(t, binary.LittleEndian.Uint64(r.mem[wire.Bulk:]))
		children = append(children, child, grandchild)
		return node
	}
	r.want(t, 0, gpubackend.OpGraphDestroyNode, add())
	add()
	r.want(t, 0, gpubackend.OpGraphDestroy, outer)
	for i, child := range children {
		if _, ok := r.objects.Lookup(object.Graph, child); ok {
			t.Errorf("child %d is known still", i)
		}
	}
	r.want(t, 0, gpubackend.OpGraphDestroy, middle)
	r.want(t, 0, gpubackend.OpGraphDestroy, inner)
	if n := r.graphs.Names(); n != 0 {
		t.Errorf("%d names are left", n)
	}
}

// TestNodeFoundInACloneIsTheClones: it outlives the graph that it was copied from.
func TestNodeFoundInACloneIsTheClones(t *testing.T) {
	r := onSoft(t)
	g := r.want(t, 0, gpubackend.OpGraphCreate, 0)
	ref, bytes := r.given((&command.NodeEmpty{}).Append(nil))
	node := r.want(t, 0, gpubackend.OpGraphAddNode, g, 0, 0, 0, 0, ref, bytes, 0, 0)
	clone := r.want(t, 0, gpubackend.OpGraphClone, g)
	found := r.want(t, 0, gpubackend.OpGraphNodeFindInClone, node, clone)
	r.want(t, 0, gpubackend.OpGraphDestroy, g)
	r.want(t, 0, gpubackend.OpGraphNodeGetType, found)
}

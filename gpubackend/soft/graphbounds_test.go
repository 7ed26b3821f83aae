// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// fill makes a graph that takes all the memory that is left to graphs.
func fill(t *testing.T, d *Device) gpubackend.Graph {
	t.Helper()
	g := newGraph(t, d)
	bytes := make([]byte, 64<<20) // counted whatever the node is
	for {
		left := graphs.MaxBytes - d.Graphs.Held().Bytes
		if left <= 0 {
			return g
		}
		n := empty()
		n.Access = bytes[:min(len(bytes), max(left-graphs.NodeBytes, 0))]
		addNode(t, d, g, n)
	}
}

func TestGraphsAreBounded(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	a := addNode(t, d, g, empty())
	b := addNode(t, d, g, empty())
	s := newStream(t, d, 0)
	e := instantiate(t, d, g, 0)
	full := fill(t, d)
	_, _, _, added := d.GraphAddNode(g, nil, nil, empty())
	_, created := d.GraphCreate(0)
	_, cloned := d.GraphClone(g)
	_, instantiated := d.GraphInstantiateWithFlags(g, 0)
	captured := d.StreamBeginCapture(s, 0)
	joined := d.GraphAddDependencies(g, []gpubackend.GraphNode{a}, []gpubackend.GraphNode{b}, nil)
	for i, result := range []gpubackend.Result{added, created, cloned, instantiated, captured,
		joined} {
		if result != gpubackend.OutOfMemory {
			t.Errorf("call %d: result %d", i, result)
		}
	}
	ok(t, d.GraphDestroy(full))
	ok(t, d.GraphLaunch(e, 0))
	// A graph that is added to itself twice, again and again, soon takes too much.
	result := gpubackend.Success
	for n := 0; result == gpubackend.Success; n++ {
		if n > 64 {
			t.Fatal("no end of it")
		}
		for range 2 {
			if result == gpubackend.Success {
				_, _, _, result = d.GraphAddNode(g, nil, nil,
					&gpubackend.Node{Type: gpubackend.NodeGraph, Child: g})
			}
		}
	}
	want(t, result, gpubackend.OutOfMemory)
	_, result = d.GraphInstantiateWithFlags(g, 0)
	want(t, result, gpubackend.OutOfMemory)
	ok(t, d.GraphExecDestroy(e))
	ok(t, d.GraphDestroy(g))
	if d.Graphs.Held().Bytes != 0 || d.handles.Len() != 2 {
		t.Errorf("%d bytes are accounted for, %d handles", d.Graphs.Held().Bytes, d.handles.Len())
	}
}

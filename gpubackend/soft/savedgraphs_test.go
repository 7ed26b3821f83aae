// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// fillOne is a node that sets a byte of memory.
func fillOne(address, value uint64) *gpubackend.Node {
	return &gpubackend.Node{Type: gpubackend.NodeMemset, Fill: gpubackend.Fill{
		Dst: address, Pitch: 1, Value: value, Element: 1, Width: 1, Height: 1}}
}

// graphRig is a device with the graph inner, a copy of it, and two executable graphs. One, changed,
// was made of inner, and then a node was changed and another one disabled. The other, removed, was
// made of outer, which had inner as a node, and is gone.
type graphRig struct {
	*Device
	context          gpubackend.Context
	at               uint64
	inner, outer     gpubackend.Graph
	first, second    gpubackend.GraphNode
	made             []gpubackend.Graph
	states           *gpubackend.GraphStates
	changed, removed gpubackend.GraphExec
}

func newGraphRig(t *testing.T) *graphRig {
	r := &graphRig{Device: newDevice(t, Options{})}
	r.context = primary(t, r.Device)
	r.at = alloc(t, r.Device, 1000)
	var result gpubackend.Result
	r.inner, result = r.GraphCreate(0)
	ok(t, result)
	r.first = addNode(t, r.Device, r.inner, fillOne(r.at, 1))
	r.second = addNode(t, r.Device, r.inner, fillOne(r.at+1, 2), r.first)
	r.outer, result = r.GraphCreate(0)
	ok(t, result)
	child := addNode(t, r.Device, r.outer, &gpubackend.Node{Type: gpubackend.NodeGraph,
		Child: r.inner})
	addNode(t, r.Device, r.outer, fillOne(r.at+2, 3), child)
	clone, result := r.GraphClone(r.inner)
	ok(t, result)
	r.made = []gpubackend.Graph{r.inner, clone}
	r.changed, result = r.GraphInstantiateWithFlags(r.inner, 0)
	ok(t, result)
	ok(t, r.GraphExecNodeSet(r.changed, r.second, fillOne(r.at+1, 9)))
	ok(t, r.GraphNodeSetEnabled(r.changed, r.first, 0))
	r.removed, result = r.GraphInstantiateWithFlags(r.outer, 0)
	ok(t, result)
	ok(t, r.GraphDestroy(r.outer))
	var err error
	if r.states, err = r.save(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *graphRig) save() (*gpubackend.GraphStates, error) {
	return r.SaveGraphs(r.made, []gpubackend.GraphExec{r.changed, r.removed})
}

// TestSavedGraphs: another device has the same graphs, and the executable ones do what they did.
func TestSavedGraphs(t *testing.T) {
	r := newGraphRig(t)
	if len(r.states.Graphs) != 2 || len(r.states.Execs) != 2 || r.FixedGraphs() != 0 {
		t.Fatalf("%+v", r.states)
	}
	o, m := r.options, r.moveAway(t)
	d := again(t, o, m)
	ok(t, d.TakeAllocation(gpubackend.Allocation{Address: r.at, Bytes: 1000}))
	ok(t, d.LoadPieces(m.pieces, m.image))
	ok(t, d.RestoreGraphs(r.states))
	for _, e := range r.states.Execs {
		ok(t, d.GraphLaunch(e.Exec, 0))
		ok(t, wait(t, d.ContextQuery))
	}
	if b := space.Bytes(r.at, 3); b[0] != 1 || b[1] != 2 || b[2] != 3 {
		t.Errorf("the last one has written %v", b)
	}
	space.Bytes(r.at, 1)[0] = 77
	nodes := r.states.Graphs[0].Nodes
	changed, first, second := r.states.Execs[0].Exec, nodes[0].Node, nodes[1].Node
	ok(t, d.GraphLaunch(changed, 0))
	ok(t, wait(t, d.ContextQuery))
	if b := space.Bytes(r.at, 3); b[0] != 77 || b[1] != 9 {
		t.Errorf("the changed one has written %v", b)
	}
	ok(t, d.GraphNodeSetEnabled(changed, first, 1))
	if after, result := d.GraphNodeGetDependencies(second, nil); result != gpubackend.Success ||
		len(after) != 1 || after[0] != first {
		t.Errorf("it comes after %v", after)
	}
	clone := r.states.Graphs[1]
	same, result := d.GraphNodeFindInClone(second, clone.Graph)
	ok(t, result)
	if same != clone.Nodes[1].Node {
		t.Errorf("%v is the copy", same)
	}
}

// TestGraphsThatCantBeSaved: memory that they use is gone.
func TestGraphsThatCantBeSaved(t *testing.T) {
	r := newGraphRig(t)
	ok(t, r.MemFree(r.at))
	if _, err := r.save(); err == nil {
		t.Error("memory is gone")
	}
}

// TestStrangeGraphs: graphs that can't have been saved aren't made.
func TestStrangeGraphs(t *testing.T) {
	for name, spoil := range map[string]func(r *graphRig){
		"another context": func(r *graphRig) { r.states.Graphs[0].Nodes[0].Context = 5 },
		"after none":      func(r *graphRig) { r.states.Graphs[0].Nodes[0].After = []int{2} },
		"after less than none": func(r *graphRig) {
			r.states.Graphs[0].Nodes[0].After = []int{-1}
		},
		"after itself": func(r *graphRig) { r.states.Graphs[0].Nodes[0].After = []int{0} },
		"twice after":  func(r *graphRig) { r.states.Graphs[0].Nodes[1].After = []int{0, 0} },
		"an edge with a port": func(r *graphRig) {
			r.states.Graphs[0].Nodes[1].Edges = []byte{1, 0, 0, 0, 0, 0, 0, 0}
		},
		"a node twice": func(r *graphRig) {
			r.states.Graphs[0].Nodes[1].Node = r.states.Graphs[0].Nodes[0].Node
		},
		"a copy of none": func(r *graphRig) { r.states.Graphs[1].Nodes[0].Origin = 4 },
		"no child":       func(r *graphRig) { r.states.Execs[1].Graph.Nodes[0].Child = nil },
		"a child of a fill": func(r *graphRig) {
			r.states.Graphs[0].Nodes[0].Child = &r.states.Graphs[1]
		},
		"memory": func(r *graphRig) { r.states.Graphs[0].Nodes[0].What.Fill.Dst = 1 },
		"a kind": func(r *graphRig) { r.states.Graphs[0].Nodes[0].What.Type = 99 },
		"an allocation": func(r *graphRig) {
			r.states.Graphs[0].Nodes[0].What.Type = gpubackend.NodeMemAlloc
		},
		"a ring": func(r *graphRig) {
			r.states.Execs[0].Graph.Nodes[0].After = []int{1}
		},
		"flags":        func(r *graphRig) { r.states.Execs[0].Flags = 1 << 40 },
		"made of none": func(r *graphRig) { r.states.Execs[0].Source = 4 },
		"disabled what can't be": func(r *graphRig) {
			r.states.Execs[1].Graph.Nodes[0].Disabled = true
		},
	} {
		r := newGraphRig(t)
		spoil(r)
		if r.RestoreGraphs(r.states) == gpubackend.Success {
			t.Errorf("%s: it is made", name)
		}
	}
}
